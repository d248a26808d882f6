//! The one thread that writes, and how several callers share one sync to disk.
//!
//! Calls wait in a queue while the disk syncs. Whatever has gathered by then is applied in one
//! transaction, in order, and synced once; only then is anybody answered. Either all of it
//! happened or none of it: a call that was not answered may be made again.

use std::sync::mpsc as queue;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redb::{Database, Durability};
use tokio::sync::oneshot;
use tokio::time::timeout;

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

/// How long an answer may take: a disk that hangs must not hang its callers. What was not answered
/// may happen all the same, and may be asked for again.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long the end of the thread is waited for.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Hands calls to the thread. The thread ends when this is dropped.
pub(super) struct Writer {
    calls: Option<queue::SyncSender<Apply>>,
    /// Ends with the thread.
    closed: Mutex<queue::Receiver<()>>,
    /// Who writes when there is no thread.
    #[cfg(any(test, feature = "test-support"))]
    desk: Option<Mutex<Desk>>,
}

impl Writer {
    /// Starts the thread on an open file.
    pub(super) fn start(place: Arc<Place>, database: Database) -> std::io::Result<Self> {
        let (calls, waiting) = queue::sync_channel(QUEUE_MAX);
        let (open, closed) = queue::sync_channel::<()>(0);
        let desk = Desk { place, database: Some(database) };
        let run = move || {
            desk.run(&waiting);
            drop(open);
        };
        thread::Builder::new().name("store writer".into()).spawn(run)?;
        Ok(Self {
            calls: Some(calls),
            closed: Mutex::new(closed),
            #[cfg(any(test, feature = "test-support"))]
            desk: None,
        })
    }

    /// One that applies each call where it is made.
    #[cfg(any(test, feature = "test-support"))]
    pub(super) fn without_thread(place: Arc<Place>, database: Database) -> Self {
        let (_, closed) = queue::sync_channel(0);
        let desk = Some(Mutex::new(Desk { place, database: Some(database) }));
        Self { calls: None, closed: Mutex::new(closed), desk }
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
        #[cfg(any(test, feature = "test-support"))]
        if let Some(desk) = &self.desk {
            desk.lock().unwrap_or_else(PoisonError::into_inner).serve(vec![apply]);
            return told.await.map_err(|_| gone("could not write"));
        }
        let calls = self.calls.as_ref().ok_or_else(|| gone("is closed"))?;
        calls.try_send(apply).map_err(|_| gone("is busy or closed"))?;
        match timeout(ANSWER_WITHIN, told).await {
            Ok(answer) => answer.map_err(|_| gone("could not write")),
            Err(_) => Err(gone("does not answer in time")),
        }
    }
}

impl Drop for Writer {
    /// Waits for the thread, so that the file is closed in order.
    fn drop(&mut self) {
        self.calls = None;
        let closed = self.closed.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = closed.recv_timeout(CLOSE_WITHIN);
    }
}

struct Desk {
    place: Arc<Place>,
    /// `None` after an error: the file is opened anew for the next call.
    database: Option<Database>,
}

impl Desk {
    fn run(mut self, waiting: &queue::Receiver<Apply>) {
        while let Ok(first) = waiting.recv() {
            let group: Vec<Apply> =
                std::iter::once(first).chain(waiting.try_iter().take(GROUP_MAX - 1)).collect();
            self.serve(group);
        }
    }

    fn serve(&mut self, group: Vec<Apply>) {
        match self.write(group) {
            Ok(answers) => answers.into_iter().for_each(|tell| tell()),
            Err(error) => {
                tracing::error!(%error, "nothing of this was written; callers try again");
                // After an error redb refuses everything until its file is opened anew.
                self.database = None;
            }
        }
    }

    fn write(&mut self, group: Vec<Apply>) -> Result<Vec<Tell>, Error> {
        if self.database.is_none() {
            self.database = Some(self.place.open()?);
        }
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        apply(database, &self.place, group)
    }
}

fn apply(database: &Database, place: &Place, group: Vec<Apply>) -> Result<Vec<Tell>, Error> {
    let in_words = |error: redb::Error| place.in_words(&error);
    let mut transaction = database.begin_write().map_err(|error| in_words(error.into()))?;
    transaction.set_durability(Durability::Immediate).map_err(|error| in_words(error.into()))?;
    let mut page = Page::open(&transaction).map_err(in_words)?;
    let answers = group.into_iter().map(|apply| apply(&mut page)).collect::<Result<_, _>>();
    let answers = answers.map_err(in_words)?;
    if page.dirty {
        place.is_still_there()?;
        page.close().map_err(in_words)?;
        transaction.commit().map_err(|error| in_words(error.into()))?;
    } else {
        drop(page);
        transaction.abort().map_err(|error| in_words(error.into()))?;
    }
    Ok(answers)
}
