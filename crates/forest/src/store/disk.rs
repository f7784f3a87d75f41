//! A simulated disk in memory, as bad as a store may have to expect.
//!
//! Bytes and names that are not synced may be lost in pieces and in any order, operations fail, and so does the power.

#![expect(clippy::unwrap_used, reason = "a model, in tests alone")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use spinney_text::hash::SplitMix64;

use crate::store::files::{File, Files};

/// Bytes that the disk writes as a whole; real disks write 512 or more.
const SECTOR: usize = 16;

/// A fault to inject at an operation. Only operations that change something are counted, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The operation of this number fails, and writes a part of its bytes.
    FailsAt(u64, ErrorKind),
    /// The disk is full from this operation on: creations and writes fail.
    FullFrom(u64),
    /// The process or the power ends at this operation: it is done, partly done or not done, and all later ones fail.
    EndsAt(u64),
}

/// A simulated disk. Clones share it; those of a process fail when the process has ended.
#[derive(Debug, Clone)]
pub struct Disk(Arc<Mutex<State>>, Option<u64>);

#[derive(Debug)]
struct State {
    inodes: Vec<Inode>,
    /// Names as the operating system shows them; `synced_names` are those on the disk.
    names: BTreeMap<PathBuf, Entry>,
    synced_names: BTreeMap<PathBuf, Entry>,
    /// Changes of names since their directories were synced.
    pending: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    operations: u64,
    fault: Fault,
    /// Whether [`Fault::EndsAt`] has happened.
    ended: bool,
    /// Number of processes that have ended.
    ends: u64,
    random: SplitMix64,
    salts: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Directory,
    File(usize),
}

#[derive(Debug, Clone)]
enum NameChange {
    Add(PathBuf, Entry),
    Rename(PathBuf, PathBuf, Entry),
    Remove(PathBuf),
}

impl NameChange {
    fn is_in(&self, dir: &Path) -> bool {
        match self {
            NameChange::Add(path, _) | NameChange::Rename(_, path, _) | NameChange::Remove(path) => {
                path.parent() == Some(dir)
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Entry>) {
        match self {
            NameChange::Add(path, entry) => {
                names.insert(path.clone(), *entry);
            }
            NameChange::Rename(from, to, entry) => {
                if names.get(from) == Some(entry) {
                    names.remove(from);
                }
                names.insert(to.clone(), *entry);
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

/// Bytes of a file, as the operating system shows them and as they are on the disk.
#[derive(Debug, Clone, Default)]
struct Inode {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Ranges lost by failed syncs: the system shows them, the disk never gets them, and the next sync succeeds.
    lost: Vec<Range<usize>>,
}

impl Inode {
    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        let len = self.synced.len();
        for lost in &self.lost {
            self.synced[lost.start.min(len)..lost.end.min(len)].fill(0);
        }
    }

    /// Replaces the bytes by those that a power loss leaves.
    fn tear(&mut self, random: &mut SplitMix64) {
        if self.now != self.synced {
            let (shorter, longer) = (self.now.len().min(self.synced.len()), self.now.len().max(self.synced.len()));
            let manner = random.next_u64() % 4;
            let len = match manner {
                0 => self.synced.len(),
                1 => self.now.len(),
                _ => shorter + (random.next_u64() as usize) % (longer - shorter + 1),
            };
            let mut torn = vec![0; len];
            for (at, byte) in torn.iter_mut().enumerate() {
                *byte = self.synced.get(at).copied().unwrap_or(0);
            }
            for sector in 0..len.div_ceil(SECTOR) {
                let from = sector * SECTOR;
                let to = (from + SECTOR).min(len).min(self.now.len());
                let is_kept = manner == 1 || random.next_u64().is_multiple_of(2);
                let is_never_written = self.lost.iter().any(|lost| lost.start < to && from < lost.end);
                if from < to && is_kept && !is_never_written {
                    torn[from..to].copy_from_slice(&self.now[from..to]);
                }
            }
            self.now = torn;
        }
        self.synced.clone_from(&self.now);
        self.lost.clear();
    }
}

/// The result that an operation has to have.
enum Verdict {
    Done,
    /// A part is done, and the error is returned.
    Partly(ErrorKind),
    /// Nothing is done, and the error is returned.
    Fails(ErrorKind),
}

impl State {
    /// Counts an operation, and decides its result.
    fn operation(&mut self, needs_room: bool) -> Verdict {
        if self.ended {
            return Verdict::Fails(ErrorKind::Other);
        }
        self.operations += 1;
        let now = self.operations;
        match self.fault {
            Fault::FailsAt(at, kind) if at == now => Verdict::Partly(kind),
            Fault::FullFrom(at) if at <= now && needs_room => Verdict::Partly(ErrorKind::StorageFull),
            Fault::EndsAt(at) if at == now => {
                self.ended = true;
                match self.random.next_u64() % 3 {
                    0 => Verdict::Done,
                    1 => Verdict::Partly(ErrorKind::Other),
                    _ => Verdict::Fails(ErrorKind::Other),
                }
            }
            _ => Verdict::Done,
        }
    }

    /// As [`operation`](State::operation), for one that is done as a whole or not at all.
    fn whole(&mut self, needs_room: bool) -> Result<()> {
        match self.operation(needs_room) {
            Verdict::Done => Ok(()),
            Verdict::Partly(kind) | Verdict::Fails(kind) => Err(kind.into()),
        }
    }

    fn inode(&self, path: &Path) -> Result<usize> {
        match self.names.get(path) {
            Some(&Entry::File(inode)) => Ok(inode),
            _ => Err(ErrorKind::NotFound.into()),
        }
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }
}

impl Disk {
    /// Creates an empty disk, whose losses follow from the seed.
    pub fn new(seed: u64) -> Disk {
        let state = State {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            pending: Vec::new(),
            locked: BTreeSet::new(),
            operations: 0,
            fault: Fault::None,
            ended: false,
            ends: 0,
            random: SplitMix64(seed),
            salts: 0,
        };
        Disk(Arc::new(Mutex::new(state)), None)
    }

    /// The file system of a process that begins now.
    pub fn files(&self) -> Arc<dyn Files> {
        let ends = self.0.lock().ends;
        Arc::new(Disk(self.0.clone(), Some(ends)))
    }

    /// Locks the state; fails if the process of this handle has ended.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.0.lock();
        match self.1 {
            Some(ends) if ends != state.ends => Err(ErrorKind::Other.into()),
            _ => Ok(state),
        }
    }

    /// Number of operations since the last [`set`](Disk::set).
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Whether [`Fault::EndsAt`] has ended the process or the power.
    pub fn has_ended(&self) -> bool {
        self.0.lock().ended
    }

    /// Sets the fault, and counts operations from 0 again.
    pub fn set(&self, fault: Fault) {
        let mut state = self.0.lock();
        state.operations = 0;
        state.fault = fault;
    }

    /// Kills the process: the system keeps all that was written. A new process may begin.
    pub fn kill(&self) {
        let mut state = self.0.lock();
        state.ends += 1;
        state.ended = false;
        state.fault = Fault::None;
        state.locked.clear();
    }

    /// Cuts the power, and starts the machine again. Anything that was not synced is kept or lost.
    pub fn lose_power(&self) {
        self.kill();
        let mut state = self.0.lock();
        let state = &mut *state;
        let manner = state.random.next_u64() % 3;
        let mut names = state.synced_names.clone();
        for change in std::mem::take(&mut state.pending) {
            if manner == 0 || manner == 1 && state.random.next_u64().is_multiple_of(2) {
                change.apply(&mut names);
            }
        }
        // The files of a lost directory are lost, too.
        let kept = names.clone();
        names.retain(|path, _| {
            let mut above = path.ancestors().skip(1);
            above.all(|dir| dir.parent().is_none() || kept.contains_key(dir))
        });
        for inode in &mut state.inodes {
            inode.tear(&mut state.random);
        }
        state.names = names.clone();
        state.synced_names = names;
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        let state = self.0.lock();
        let inode = state.inode(path).unwrap();
        state.inodes[inode].now.clone()
    }

    /// Creates a file that is on the disk at once.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.0.lock();
        let inode = state.inodes.len();
        state.inodes.push(Inode { now: bytes.to_vec(), synced: bytes.to_vec(), lost: Vec::new() });
        state.names.insert(path.into(), Entry::File(inode));
        state.synced_names.insert(path.into(), Entry::File(inode));
    }

    /// Removes a file from the disk at once.
    pub fn take(&self, path: &Path) {
        let mut state = self.0.lock();
        state.names.remove(path).unwrap();
        state.synced_names.remove(path);
    }

    /// Paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        let state = self.0.lock();
        let files = state.names.iter();
        let files = files.filter(|(_, entry)| matches!(entry, Entry::File(_)));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// A copy of the files and directories, all of them synced.
    pub fn copy(&self) -> Disk {
        let copy = Disk::new(1);
        for path in self.paths() {
            copy.put(&path, &self.bytes(&path));
        }
        let names = self.0.lock().names.clone();
        let directories = names.into_iter();
        let directories = directories.filter(|(_, entry)| *entry == Entry::Directory);
        let mut state = copy.0.lock();
        for (path, entry) in directories {
            state.names.insert(path.clone(), entry);
            state.synced_names.insert(path, entry);
        }
        drop(state);
        copy
    }
}

impl Files for Disk {
    fn create_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.state()?;
        let mut missing: Vec<&Path> = path.ancestors().collect();
        missing.retain(|dir| dir.parent().is_some() && !state.names.contains_key(*dir));
        for dir in missing.into_iter().rev() {
            state.whole(true)?;
            state.change(NameChange::Add(dir.into(), Entry::Directory));
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.state()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| path.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn create(&self, path: &Path) -> Result<Box<dyn File>> {
        let mut state = self.state()?;
        state.whole(true)?;
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.change(NameChange::Add(path.into(), Entry::File(inode)));
        Ok(Box::new(Handle(self.clone(), inode)))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn File>> {
        let inode = self.state()?.inode(path)?;
        Ok(Box::new(Handle(self.clone(), inode)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state()?;
        state.whole(false)?;
        let entry = Entry::File(state.inode(from)?);
        state.change(NameChange::Rename(from.into(), to.into(), entry));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state()?;
        state.whole(false)?;
        state.inode(path)?;
        state.change(NameChange::Remove(path.into()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.state()?;
        state.whole(false)?;
        let (synced, pending) = std::mem::take(&mut state.pending).into_iter().partition(|change| change.is_in(dir));
        state.pending = pending;
        let synced: Vec<NameChange> = synced;
        for change in synced {
            change.apply(&mut state.synced_names);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        let mut state = self.state()?;
        if state.ended {
            return Err(ErrorKind::Other.into());
        }
        if !state.locked.insert(path.into()) {
            return Ok(None);
        }
        Ok(Some(Box::new(Lock(self.clone(), path.into()))))
    }

    fn lock_existing(&self, path: &Path) -> Result<Option<Box<dyn Debug + Send + Sync>>> {
        self.lock(path)
    }

    fn random(&self) -> u64 {
        let mut state = self.0.lock();
        state.salts += 1;
        spinney_text::hash::splitmix64(state.salts)
    }
}

/// A lock on a file, released when it is dropped.
#[derive(Debug)]
struct Lock(Disk, PathBuf);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Ok(mut state) = self.0.state() {
            state.locked.remove(&self.1);
        }
    }
}

/// An open file: its disk and the number of its inode.
#[derive(Debug)]
struct Handle(Disk, usize);

impl File for Handle {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let state = self.0.state()?;
        let bytes = &state.inodes[self.1].now;
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.0.state()?;
        let (count, done) = match state.operation(true) {
            Verdict::Done => (bytes.len(), Ok(())),
            Verdict::Partly(kind) => {
                let count = state.random.next_u64() as usize % (bytes.len() + 1);
                (count, Err(Error::from(kind)))
            }
            Verdict::Fails(kind) => (0, Err(kind.into())),
        };
        state.inodes[self.1].now.extend(&bytes[..count]);
        done
    }

    fn sync(&mut self) -> Result<()> {
        let mut state = self.0.state()?;
        let done = state.whole(false);
        let ended = state.ended;
        let inode = &mut state.inodes[self.1];
        match &done {
            Ok(()) => inode.sync(),
            Err(_) if ended => {}
            Err(_) => {
                let dirty = inode.synced.len().min(inode.now.len())..inode.now.len();
                inode.lost.push(dirty);
            }
        }
        done
    }

    fn cut(&mut self, len: u64) -> Result<()> {
        let mut state = self.0.state()?;
        state.whole(false)?;
        let inode = &mut state.inodes[self.1];
        inode.now.truncate(len as usize);
        for lost in &mut inode.lost {
            lost.end = lost.end.min(len as usize);
        }
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        let state = self.0.state()?;
        Ok(state.inodes[self.1].now.len() as u64)
    }
}
