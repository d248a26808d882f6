//! The one thread that writes, and how several callers share one sync to disk.
//!
//! Calls wait in a queue while the disk syncs. Whatever has gathered by then is applied in one
//! transaction, in order, and synced once; only then is anybody answered. Either all of it
//! happened or none of it: a call that was not answered may be made again.

use std::sync::mpsc as queue;
use std::thread;

use redb::{Database, Durability};
use tokio::sync::oneshot;

use super::file::Place;
use super::page::Page;
use crate::store::Error;

/// Most calls that may wait. Callers are loops with one call each in hand.
const QUEUE_MAX: usize = 1_024;
/// Most calls in one transaction.
const GROUP_MAX: usize = 128;

/// What a call does to the file.
type Apply = Box<dyn FnOnce(&mut Page<'_>) -> Result<Tell, redb::Error> + Send>;
/// Answers the caller, once all is safe.
type Tell = Box<dyn FnOnce() + Send>;

/// Hands calls to the thread. The thread ends when this is dropped.
pub(super) struct Writer {
    calls: Option<queue::SyncSender<Apply>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on an open file.
    pub(super) fn start(place: Place, database: Database) -> std::io::Result<Self> {
        let (calls, waiting) = queue::sync_channel(QUEUE_MAX);
        let desk = Desk { place, database: Some(database) };
        let run = move || desk.run(&waiting);
        let thread = thread::Builder::new().name("store writer".into()).spawn(run)?;
        Ok(Self { calls: Some(calls), thread: Some(thread) })
    }

    /// Applies one call; answers when it is on disk.
    pub(super) async fn call<T, F>(&self, apply: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut Page<'_>) -> Result<T, redb::Error> + Send + 'static,
    {
        let (tell, told) = oneshot::channel();
        let apply: Apply = Box::new(move |page| {
            let answer = apply(page)?;
            // A caller who went away does not mind.
            Ok(Box::new(move || drop(tell.send(answer))))
        });
        let gone = |what: &str| Error::Unavailable(format!("the store {what}; see the log"));
        let calls = self.calls.as_ref().ok_or_else(|| gone("is closed"))?;
        calls.try_send(apply).map_err(|_| gone("is busy or closed"))?;
        told.await.map_err(|_| gone("could not write"))
    }
}

impl Drop for Writer {
    /// Waits for the thread, so that the file is closed in order.
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Desk {
    place: Place,
    /// `None` after an error: the file is opened anew for the next call.
    database: Option<Database>,
}

impl Desk {
    fn run(mut self, waiting: &queue::Receiver<Apply>) {
        while let Ok(first) = waiting.recv() {
            let group: Vec<Apply> =
                std::iter::once(first).chain(waiting.try_iter().take(GROUP_MAX - 1)).collect();
            match self.write(group) {
                Ok(answers) => answers.into_iter().for_each(|tell| tell()),
                Err(error) => {
                    tracing::error!(%error, "nothing of this was written; callers try again");
                    // After an error redb refuses everything until its file is opened anew.
                    self.database = None;
                }
            }
        }
    }

    fn write(&mut self, group: Vec<Apply>) -> Result<Vec<Tell>, Error> {
        if self.database.is_none() {
            self.database = Some(self.place.open()?);
        }
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        apply(database, group).map_err(|error| self.place.in_words(&error))
    }
}

fn apply(database: &Database, group: Vec<Apply>) -> Result<Vec<Tell>, redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    let mut page = Page::open(&transaction)?;
    let answers = group.into_iter().map(|apply| apply(&mut page)).collect::<Result<_, _>>()?;
    let dirty = page.dirty;
    if dirty {
        page.close()?;
        transaction.commit()?;
    } else {
        drop(page);
        transaction.abort()?;
    }
    Ok(answers)
}
