//! Opens the one file that everything lies in, or says why not and what to do.
//!
//! A file that is damaged or of a newer version is left exactly as it is: whoever looks at it next
//! may know more than this process does.

use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableTable, StorageError};

use super::page::SETTINGS;
use crate::store::Error;

/// The file within `store.path`.
const NAME: &str = "xdelay.redb";
/// Its name while it is being made.
const UNBORN_NAME: &str = "xdelay.redb.new";
/// How the tables are laid out; a process knows its own and older ones.
const LAYOUT: u32 = 1;
const LAYOUT_SETTING: &str = "layout";
/// Pages kept in memory.
const CACHE_BYTES: usize = 48 << 20;

/// Where the file lies.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In this directory.
    Directory(PathBuf),
    /// In memory: gone with the process. For simulations.
    #[cfg(any(test, feature = "test-support"))]
    Memory,
}

impl Place {
    /// Opens the file, which is made when there is none.
    ///
    /// # Errors
    /// [`Error::Foreign`] for what stays wrong until somebody acts, [`Error::Unavailable`] for the
    /// rest.
    pub(super) fn open(&self) -> Result<Database, Error> {
        let database = match self {
            Self::Directory(directory) => open_in(directory)?,
            #[cfg(any(test, feature = "test-support"))]
            Self::Memory => redb::Builder::new()
                .create_with_backend(redb::backends::InMemoryBackend::new())
                .map_err(|error| Error::Unavailable(error.to_string()))?,
        };
        check_layout(&database).map_err(|error| match error {
            Layout::Newer(found) => Error::Foreign(format!(
                "{self} was written by a newer xdelay (layout {found}, this one knows {LAYOUT}): \
                 run that version; the file was not touched"
            )),
            Layout::Unreadable(error) => self.in_words(&error),
        })?;
        Ok(database)
    }

    /// What is wrong with the file, for the operator.
    pub(super) fn in_words(&self, error: &redb::Error) -> Error {
        match error {
            redb::Error::Corrupted(why) => Error::Foreign(format!(
                "{self} is damaged ({why}): it was not touched. Restore it from a backup, or move \
                 it away to start with an empty one; what was parked in it is then missing"
            )),
            other => Error::Unavailable(format!("{self}: {other}")),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "{}", directory.join(NAME).display()),
            #[cfg(any(test, feature = "test-support"))]
            Self::Memory => f.write_str("memory"),
        }
    }
}

fn open_in(directory: &Path) -> Result<Database, Error> {
    let unusable = |error: std::io::Error| {
        Error::Foreign(format!("store.path = {} cannot be used: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(unusable)?;
    let file = directory.join(NAME);
    if !file.exists() {
        make(directory, &file)?;
    }
    // redb would take an empty file for a new one; ours is never empty under its own name.
    if file.metadata().map_err(unusable)?.len() == 0 {
        let empty = StorageError::Corrupted("it is empty".into());
        return Err(refusal(&file, empty.into()));
    }
    let opening = redb::Builder::new().set_cache_size(CACHE_BYTES).open(&file);
    opening.map_err(|error| refusal(&file, error))
}

/// Makes the file under another name first: whatever a crash leaves under its own name is whole.
fn make(directory: &Path, file: &Path) -> Result<(), Error> {
    let unusable = |error: std::io::Error| {
        Error::Foreign(format!("store.path = {} cannot be used: {error}", directory.display()))
    };
    let unborn = directory.join(UNBORN_NAME);
    if unborn.exists() {
        std::fs::remove_file(&unborn).map_err(unusable)?;
    }
    drop(redb::Builder::new().create(&unborn).map_err(|error| refusal(&unborn, error))?);
    std::fs::rename(&unborn, file).map_err(unusable)?;
    // The name must survive a power loss as the content does.
    std::fs::File::open(directory).and_then(|it| it.sync_all()).map_err(unusable)
}

fn refusal(file: &Path, error: DatabaseError) -> Error {
    let shown = file.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::Foreign(format!(
            "{shown} is in use by another process: one xdelay per store.path. Stop the other, or \
             use Redis for several replicas"
        )),
        DatabaseError::UpgradeRequired(version) => Error::Foreign(format!(
            "{shown} has file format {version}, which this xdelay does not know: run the version \
             that wrote it; the file was not touched"
        )),
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            Error::Foreign(format!(
                "{shown} is no xdelay store ({error}): it was not touched. Name another store.path"
            ))
        }
        other => Place::Directory(file.parent().unwrap_or(file).to_owned()).in_words(&other.into()),
    }
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
    {
        let mut settings = transaction.open_table(SETTINGS)?;
        let found = settings.get(LAYOUT_SETTING)?.map(|layout| layout.value().to_owned());
        match found {
            Some(layout) if layout.parse().is_ok_and(|layout: u32| layout <= LAYOUT) => {}
            Some(layout) => return Err(Layout::Newer(layout)),
            None => drop(settings.insert(LAYOUT_SETTING, &*LAYOUT.to_string())?),
        }
    }
    transaction.commit()?;
    Ok(())
}
