//! Opens the one file that everything lies in, or says why not and what to do.
//!
//! From a file that is damaged or of a newer version nothing is removed: whoever looks at it next may
//! know more than this process does.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableTable};

use super::page::SETTINGS;
use crate::store::Error;

/// The file within `store.path`.
const NAME: &str = "xdelay.redb";
/// Its name while it is being made.
const UNBORN_NAME: &str = "xdelay.redb.new";
/// Locked by whoever uses the directory.
const LOCK_NAME: &str = "xdelay.lock";
/// How the tables are laid out; a process knows its own and older ones.
const LAYOUT: u32 = 1;
const LAYOUT_SETTING: &str = "layout";
/// Pages kept in memory.
const CACHE_BYTES: usize = 48 << 20;

/// Where the file lies.
#[derive(Debug)]
pub(super) enum Place {
    /// In this directory.
    Directory(Directory),
    /// In memory: gone with the process. For simulations.
    #[cfg(any(test, feature = "test-support"))]
    Memory,
}

/// A directory that is ours for as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    file: PathBuf,
    /// Device and inode of the file when it was first opened.
    identity: (u64, u64),
    /// Locked, so that two processes cannot both make the file, nor take it from each other while
    /// it is opened anew.
    _lock: File,
}

impl Place {
    /// Takes a directory, and makes the file when there is none.
    ///
    /// # Errors
    /// [`Error::Foreign`]: what stays wrong until somebody acts.
    pub(super) fn take(directory: &Path) -> Result<Self, Error> {
        let unusable = |error: io::Error| {
            let shown = directory.display();
            Error::Foreign(format!("store.path = {shown} cannot be used: {error}"))
        };
        std::fs::create_dir_all(directory).map_err(unusable)?;
        let file = directory.join(NAME);
        let lock = File::create(directory.join(LOCK_NAME)).map_err(unusable)?;
        lock.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => {
                in_words(&file.display(), &redb::Error::DatabaseAlreadyOpen)
            }
            std::fs::TryLockError::Error(error) => unusable(error),
        })?;
        if !file.try_exists().map_err(unusable)? {
            make(directory, &file).map_err(|error| match error {
                redb::Error::Io(error) => unusable(error),
                other => Error::Unavailable(other.to_string()),
            })?;
        }
        let identity = identity(&file).map_err(unusable)?;
        Ok(Self::Directory(Directory { file, identity, _lock: lock }))
    }

    /// Opens the file, which is there: one that vanished is not made anew.
    ///
    /// # Errors
    /// [`Error::Foreign`] for what stays wrong until somebody acts, [`Error::Unavailable`] for the
    /// rest.
    pub(super) fn open(&self) -> Result<Database, Error> {
        self.is_still_there()?;
        let database = match self {
            Self::Directory(Directory { file, .. }) => open_file(file),
            #[cfg(any(test, feature = "test-support"))]
            Self::Memory => redb::Builder::new()
                .create_with_backend(redb::backends::InMemoryBackend::new())
                .map_err(redb::Error::from),
        };
        let database = database.map_err(|error| self.in_words(&error))?;
        check_layout(&database).map_err(|error| match error {
            Layout::Newer(found) => Error::Foreign(format!(
                "{self} was written by a newer xdelay (layout {found}, this one knows {LAYOUT}): \
                 run that version"
            )),
            Layout::Unreadable(error) => self.in_words(&error),
        })?;
        Ok(database)
    }

    /// What is written to a file that was removed or replaced is lost at the next start.
    ///
    /// # Errors
    /// When the file is not the one that was first opened.
    pub(super) fn is_still_there(&self) -> Result<(), Error> {
        match self {
            Self::Directory(Directory { file, identity: first, .. }) => match identity(file) {
                Ok(now) if now == *first => Ok(()),
                Ok(_) => Err(Error::Unavailable(format!(
                    "{self} was replaced while it was in use: nothing is written to it; put it \
                     back, or start xdelay anew to use the other"
                ))),
                Err(error) => Err(Error::Unavailable(format!("{self} is gone: {error}"))),
            },
            #[cfg(any(test, feature = "test-support"))]
            Self::Memory => Ok(()),
        }
    }

    /// What is wrong with the file, for the operator.
    pub(super) fn in_words(&self, error: &redb::Error) -> Error {
        in_words(self, error)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(Directory { file, .. }) => write!(f, "{}", file.display()),
            #[cfg(any(test, feature = "test-support"))]
            Self::Memory => f.write_str("memory"),
        }
    }
}

/// [`Error::Foreign`] for what stays wrong until somebody acts.
fn in_words(file: &dyn std::fmt::Display, error: &redb::Error) -> Error {
    let damaged = |why: &str| {
        Error::Foreign(format!(
            "{file} is damaged ({why}): nothing was removed from it. Restore it from a backup, or \
             move it away to start with an empty one; what was parked in it is then missing"
        ))
    };
    match error {
        redb::Error::DatabaseAlreadyOpen => Error::Foreign(format!(
            "{file} is in use by another process: one xdelay per store.path. Stop the other, or \
             use Redis for several replicas"
        )),
        redb::Error::UpgradeRequired(version) => Error::Foreign(format!(
            "{file} has file format {version}, which this xdelay does not know: run the version \
             that wrote it"
        )),
        redb::Error::Corrupted(why) => damaged(why),
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::InvalidData => Error::Foreign(format!(
                "{file} is no xdelay store ({error}): it was not touched. Name another store.path"
            )),
            // A page that lies beyond the end.
            io::ErrorKind::UnexpectedEof => damaged("it was cut short"),
            _ => Error::Unavailable(format!("{file}: {error}")),
        },
        other => Error::Unavailable(format!("{file}: {other}")),
    }
}

fn identity(file: &Path) -> io::Result<(u64, u64)> {
    file.metadata().map(|it| (it.dev(), it.ino()))
}

fn open_file(file: &Path) -> Result<Database, redb::Error> {
    // redb would take an empty file for a new one; ours is never empty under its own name.
    if file.metadata()?.len() == 0 {
        return Err(redb::Error::Corrupted("it is empty".to_owned()));
    }
    Ok(redb::Builder::new().set_cache_size(CACHE_BYTES).open(file)?)
}

/// Makes the file under another name first: whatever a crash leaves under its own name is whole.
fn make(directory: &Path, file: &Path) -> Result<(), redb::Error> {
    let unborn = directory.join(UNBORN_NAME);
    if unborn.try_exists()? {
        std::fs::remove_file(&unborn)?;
    }
    drop(redb::Builder::new().create(&unborn)?);
    // A link, not a rename, which would replace a file that is there after all.
    std::fs::hard_link(&unborn, file)?;
    std::fs::remove_file(&unborn)?;
    // The name must survive a power loss as the content does.
    File::open(directory)?.sync_all()?;
    Ok(())
}

enum Layout {
    Newer(String),
    Unreadable(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for Layout {
    fn from(error: E) -> Self {
        Self::Unreadable(error.into())
    }
}

fn check_layout(database: &Database) -> Result<(), Layout> {
    let transaction = database.begin_write()?;
    let is_new = {
        let mut settings = transaction.open_table(SETTINGS)?;
        let found = settings.get(LAYOUT_SETTING)?.map(|layout| layout.value().to_owned());
        match found {
            Some(layout) if layout.parse().is_ok_and(|layout: u32| layout <= LAYOUT) => false,
            Some(layout) => return Err(Layout::Newer(layout)),
            None => {
                settings.insert(LAYOUT_SETTING, &*LAYOUT.to_string())?;
                true
            }
        }
    };
    if is_new {
        transaction.commit()?
    } else {
        transaction.abort()?
    }
    Ok(())
}
