//! The tables of the file, opened in one transaction, and the two moves that every arrow of the
//! state diagram is made of: take a message from its place, and put it into another.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use redb::{ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction};

use super::calendar::{self, Slots};
use super::record::{Record, Room, at_of, end_of, first_place, in_state, key, place_of};
use crate::clock::UnixMs;
use crate::store::{Mark, Place, Start, State};

type Keyed = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Place to uid.
pub(super) const PLACES: Keyed = TableDefinition::new("places");
/// Message to record.
pub(super) const RECORDS: Keyed = TableDefinition::new("records");
/// Message to envelope.
pub(super) const ENVELOPES: Keyed = TableDefinition::new("envelopes");
/// Producer's id to uid.
pub(super) const IDS: Keyed = TableDefinition::new("ids");
/// How many are parked until when.
pub(super) const CALENDAR: TableDefinition<'static, Slots, u64> = TableDefinition::new("calendar");
/// Room and state to how many messages.
pub(super) const COUNTS: TableDefinition<'static, (Room, u8), u64> = TableDefinition::new("counts");
/// How a destination is listed, to its room.
pub(super) const ROOMS: TableDefinition<'static, &'static str, Room> =
    TableDefinition::new("rooms");
/// What this file was laid out for.
pub(super) const SETTINGS: TableDefinition<'static, &'static str, &'static str> =
    TableDefinition::new("settings");
/// Room and log to how far it was parked.
pub(super) const MARKS: TableDefinition<'static, (Room, u32), &'static str> =
    TableDefinition::new("marks");
/// Message to when an operator ended it, lately.
pub(super) const GONE: TableDefinition<'static, &'static [u8], UnixMs> =
    TableDefinition::new("gone");
/// Named numbers.
pub(super) const NUMBERS: TableDefinition<'static, &'static str, u64> =
    TableDefinition::new("numbers");

const NEXT_ORDER: &str = "next order";
/// How long it is remembered that an operator ended a message, in ms, and of how many at most: an
/// intake tries again within seconds, with no more in hand than its prefetch.
const GONE_MS: u64 = 600_000;
const GONE_MAX: u64 = 10_000;

type Bytewise<'t> = Table<'t, &'static [u8], &'static [u8]>;
type Result<T> = std::result::Result<T, redb::Error>;

/// All tables of one transaction.
pub(super) struct Page<'t> {
    places: Bytewise<'t>,
    records: Bytewise<'t>,
    envelopes: Bytewise<'t>,
    ids: Bytewise<'t>,
    calendar: Table<'t, Slots, u64>,
    counts: Table<'t, (Room, u8), u64>,
    numbers: Table<'t, &'static str, u64>,
    rooms: Table<'t, &'static str, Room>,
    settings: Table<'t, &'static str, &'static str>,
    marks: Table<'t, (Room, u32), &'static str>,
    gone: Table<'t, &'static [u8], UnixMs>,
    /// What to add to `counts`, written once at the end.
    changes: BTreeMap<(Room, u8), i64>,
    /// What to add to `calendar`, written when it is read, or at the end.
    due_changes: calendar::Changes,
    next_order: u64,
    /// Whether anything was written.
    pub dirty: bool,
}

impl<'t> Page<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self> {
        let numbers = transaction.open_table(NUMBERS)?;
        let next_order = numbers.get(NEXT_ORDER)?.map_or(1, |next| next.value());
        Ok(Self {
            places: transaction.open_table(PLACES)?,
            records: transaction.open_table(RECORDS)?,
            envelopes: transaction.open_table(ENVELOPES)?,
            ids: transaction.open_table(IDS)?,
            calendar: transaction.open_table(CALENDAR)?,
            counts: transaction.open_table(COUNTS)?,
            numbers,
            rooms: transaction.open_table(ROOMS)?,
            settings: transaction.open_table(SETTINGS)?,
            marks: transaction.open_table(MARKS)?,
            gone: transaction.open_table(GONE)?,
            changes: BTreeMap::new(),
            due_changes: calendar::Changes::default(),
            next_order,
            dirty: false,
        })
    }

    /// Writes what was kept back until the end.
    pub(super) fn close(mut self) -> Result<()> {
        for (of, change) in &self.changes {
            let count = self.counts.get(*of)?.map_or(0, |count| count.value());
            self.counts.insert(*of, count.saturating_add_signed(*change))?;
        }
        self.due_changes.write(&mut self.calendar)?;
        self.numbers.insert(NEXT_ORDER, self.next_order)?;
        Ok(())
    }

    /// The room of a destination, which gets one when it has none.
    pub(super) fn room(&mut self, listed: &str) -> Result<Room> {
        if let Some(room) = self.rooms.get(listed)? {
            return Ok(room.value());
        }
        let room = u32::try_from(self.rooms.len()? + 1).map_err(|_| damaged())?;
        self.rooms.insert(listed, room)?;
        self.dirty = true;
        Ok(room)
    }

    /// How every destination is listed.
    pub(super) fn all_listings(&self) -> Result<Vec<String>> {
        self.rooms.iter()?.map(|entry| Ok(entry?.0.value().to_owned())).collect()
    }

    /// Every room.
    pub(super) fn all_rooms(&self) -> Result<Vec<Room>> {
        self.rooms.iter()?.map(|entry| Ok(entry?.1.value())).collect()
    }

    /// Stores a setting once, and answers what is stored.
    pub(super) fn fix(&mut self, field: &str, value: &str) -> Result<String> {
        if let Some(stored) = self.settings.get(field)? {
            return Ok(stored.value().to_owned());
        }
        self.settings.insert(field, value)?;
        self.dirty = true;
        Ok(value.to_owned())
    }

    /// How far a log was parked.
    pub(super) fn mark(&self, room: Room, log: u32) -> Result<Option<Mark>> {
        let found = self.marks.get((room, log))?;
        found.map(|text| Mark::decode(text.value()).ok_or_else(damaged)).transpose()
    }

    pub(super) fn set_mark(&mut self, room: Room, log: u32, mark: &Mark) -> Result<()> {
        self.dirty = true;
        self.marks.insert((room, log), &*mark.encode())?;
        Ok(())
    }

    /// A number that no place has had.
    pub(super) fn order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order - 1
    }

    pub(super) fn record(&self, room: Room, uid: &[u8]) -> Result<Option<Record>> {
        let found = self.records.get(&*key(room, uid))?;
        found.map(|bytes| Record::decode(bytes.value()).ok_or_else(damaged)).transpose()
    }

    pub(super) fn envelope(&self, room: Room, uid: &[u8]) -> Result<Option<Bytes>> {
        let found = self.envelopes.get(&*key(room, uid))?;
        Ok(found.map(|bytes| Bytes::copy_from_slice(bytes.value())))
    }

    /// A message that was not here before.
    pub(super) fn add(
        &mut self,
        room: Room,
        uid: &[u8],
        record: &Record,
        envelope: &[u8],
    ) -> Result<()> {
        self.envelopes.insert(&*key(room, uid), envelope)?;
        self.put(room, uid, record)
    }

    /// Moves a message from its place to another.
    pub(super) fn put_anew(
        &mut self,
        room: Room,
        uid: &[u8],
        from: &Record,
        to: &Record,
    ) -> Result<()> {
        self.leave(room, from)?;
        self.put(room, uid, to)
    }

    /// Ends a message, wherever it is.
    pub(super) fn remove(&mut self, room: Room, uid: &[u8], record: &Record) -> Result<()> {
        self.leave(room, record)?;
        self.records.remove(&*key(room, uid))?;
        self.envelopes.remove(&*key(room, uid))?;
        Ok(())
    }

    fn put(&mut self, room: Room, uid: &[u8], record: &Record) -> Result<()> {
        self.dirty = true;
        self.places.insert(&record.place(room)[..], uid)?;
        self.records.insert(&*key(room, uid), &*record.encode())?;
        *self.changes.entry((room, record.state as u8)).or_default() += 1;
        if record.state == State::Parked {
            self.due_changes.count(room, record.at, 1);
        }
        Ok(())
    }

    fn leave(&mut self, room: Room, record: &Record) -> Result<()> {
        self.dirty = true;
        self.places.remove(&record.place(room)[..])?;
        *self.changes.entry((room, record.state as u8)).or_default() -= 1;
        if record.state == State::Parked {
            self.due_changes.count(room, record.at, -1);
        }
        Ok(())
    }

    /// Takes note that an operator ended a message: its park may still be on the way, since one whose
    /// answer was lost is sent again.
    pub(super) fn remember_gone(&mut self, room: Room, uid: &[u8], now: UnixMs) -> Result<()> {
        if self.gone.len()? >= GONE_MAX {
            self.gone.retain(|_, at| at.saturating_add(GONE_MS) > now)?;
        }
        if self.gone.len()? >= GONE_MAX {
            let mut times =
                self.gone.iter()?.map(|entry| Ok(entry?.1.value())).collect::<Result<Vec<_>>>()?;
            times.sort_unstable();
            // Those of one bulk share an instant; then half of them is as good as any.
            let (middle, mut half) = (times[times.len() / 2], times.len() / 2);
            self.gone.retain(|_, at| {
                let goes = at <= middle && half > 0;
                half -= usize::from(goes);
                !goes
            })?;
        }
        self.dirty = true;
        self.gone.insert(&*key(room, uid), now)?;
        Ok(())
    }

    /// Whether an operator ended this message lately.
    pub(super) fn is_gone(&self, room: Room, uid: &[u8], now: UnixMs) -> Result<bool> {
        if self.gone.is_empty()? {
            return Ok(false);
        }
        let at = self.gone.get(&*key(room, uid))?;
        Ok(at.is_some_and(|at| at.value().saturating_add(GONE_MS) > now))
    }

    /// Uids in this state whose time is `until` or earlier, the earliest first.
    pub(super) fn until(
        &self,
        room: Room,
        state: State,
        until: UnixMs,
        most: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let from = first_place(room, state, 0);
        let to = first_place(room, state, until.saturating_add(1));
        let found = self.places.range(&from[..]..&to[..])?.take(most);
        found.map(|entry| Ok(entry?.1.value().to_vec())).collect()
    }

    /// Places of this state, without what they share, and who stands there.
    pub(super) fn places_from(
        &self,
        room: Room,
        state: State,
        start: &Start,
        most: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let from = match start {
            Start::At(at) => Bound::Included(first_place(room, state, *at).to_vec()),
            Start::After(Place(place)) => Bound::Excluded(place_of(room, state, place)),
        };
        let end = end_of(room, state);
        let range = (from.as_ref().map(|from| &from[..]), Bound::Excluded(&end[..]));
        let found = self.places.range::<&[u8]>(range)?.take(most);
        found
            .map(|entry| {
                let (place, uid) = entry?;
                Ok((in_state(place.value()).to_vec(), uid.value().to_vec()))
            })
            .collect()
    }

    /// How long an envelope is, and how it begins.
    pub(super) fn envelope_head(
        &self,
        room: Room,
        uid: &[u8],
        most: usize,
    ) -> Result<(u64, Bytes)> {
        let found = self.envelopes.get(&*key(room, uid))?;
        Ok(found.map_or_else(Default::default, |envelope| {
            let envelope = envelope.value();
            let head = Bytes::copy_from_slice(&envelope[..envelope.len().min(most)]);
            (envelope.len() as u64, head)
        }))
    }

    /// Whether an operator holds the releases of a destination back.
    pub(super) fn is_paused(&self, room: Room) -> Result<bool> {
        Ok(self.settings.get(&*paused(room))?.is_some())
    }

    pub(super) fn pause(&mut self, room: Room, pause: bool) -> Result<()> {
        self.dirty = true;
        if pause {
            self.settings.insert(&*paused(room), "by an operator")?;
        } else {
            self.settings.remove(&*paused(room))?;
        }
        Ok(())
    }

    /// When the earliest parked message may be tried.
    pub(super) fn next_due(&self, room: Room) -> Result<Option<UnixMs>> {
        let from = first_place(room, State::Parked, 0);
        let to = first_place(room, State::Leased, 0);
        let first = self.places.range(&from[..]..&to[..])?.next();
        first.map(|entry| Ok(at_of(entry?.0.value()))).transpose()
    }

    /// How many messages are in each state, in the order of [`State::ALL`].
    pub(super) fn counts(&self, room: Room) -> Result<[u64; 3]> {
        let mut counts = [0; 3];
        for (count, state) in counts.iter_mut().zip(State::ALL) {
            let of = (room, state as u8);
            let kept = self.counts.get(of)?.map_or(0, |count| count.value());
            let change = self.changes.get(&of).copied().unwrap_or(0);
            *count = kept.saturating_add_signed(change);
        }
        Ok(counts)
    }

    /// How many are parked whose time is `until` or earlier.
    pub(super) fn parked_until(&mut self, room: Room, until: UnixMs) -> Result<u64> {
        self.due_changes.write(&mut self.calendar)?;
        let (before, second) = calendar::before(&self.calendar, room, until)?;
        let from = first_place(room, State::Parked, second);
        let to = first_place(room, State::Parked, until.saturating_add(1));
        Ok(before + self.places.range(&from[..]..&to[..])?.count() as u64)
    }

    /// How many are parked until each of these instants, which ascend; to the second.
    pub(super) fn backlog(&mut self, room: Room, until: &[UnixMs]) -> Result<Vec<u64>> {
        self.due_changes.write(&mut self.calendar)?;
        let (mut from, mut sum) = (0, 0);
        until
            .iter()
            .map(|instant| {
                let end = (instant / 1_000).saturating_add(1).saturating_mul(1_000);
                sum += calendar::between(&self.calendar, room, from, end)?;
                from = from.max(end);
                Ok(sum)
            })
            .collect()
    }

    /// The uid that a producer's id stands for.
    pub(super) fn holder_of(&self, room: Room, id: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.ids.get(&*key(room, id.as_bytes()))?.map(|uid| uid.value().to_vec()))
    }

    pub(super) fn name(&mut self, room: Room, id: &str, uid: &[u8]) -> Result<()> {
        self.ids.insert(&*key(room, id.as_bytes()), uid)?;
        Ok(())
    }

    pub(super) fn forget_name(&mut self, room: Room, id: &str) -> Result<()> {
        self.ids.remove(&*key(room, id.as_bytes()))?;
        Ok(())
    }

    /// Forgets an id, if it is this message's.
    pub(super) fn forget_name_of(&mut self, room: Room, id: &str, uid: &[u8]) -> Result<()> {
        if self.holder_of(room, id)?.as_deref() == Some(uid) {
            self.forget_name(room, id)?;
        }
        Ok(())
    }
}

fn paused(room: Room) -> String {
    format!("paused:{room}")
}

/// A record that no version wrote.
pub(super) fn damaged() -> redb::Error {
    redb::Error::Corrupted("a record is not what was written".to_owned())
}
