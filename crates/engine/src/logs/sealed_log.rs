//! File format of sealed logs: independently compressed blocks, followed by the index and a trailer of fixed size.
//!
//! To read a range, only the blocks that contain it are decompressed. All numbers are little-endian.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;

use aws_lc_rs::digest::{Context, SHA256};

use super::index::{BLOCK_BYTES, LineIndex};
use super::{LOG_BYTES_MAX, LogError};

/// A good tradeoff between size and speed for text that is rarely read.
const COMPRESSION_LEVEL: i32 = 3;
const MAGIC: [u8; 4] = *b"bl01";
const DIGEST_BYTES: usize = 32;
/// Size of the trailer: length, number of newlines, whether the last line has no newline, and damage offset (8 bytes
/// each), then digest, checksum and magic number.
const TRAILER_BYTES: usize = 4 * 8 + DIGEST_BYTES + 4 + MAGIC.len();
const ENTRY_BYTES: usize = 2 * 8;
const UNDAMAGED: u64 = u64::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSeal {
    pub bytes: u64,
    pub lines: u64,
    /// Digest of the uncompressed log.
    pub sha256: [u8; 32],
    /// If set, data from this offset on was lost because of a disk error.
    pub damaged: Option<u64>,
}

impl LogSeal {
    pub(super) fn empty() -> Self {
        Self { bytes: 0, lines: 0, sha256: digest_of(Context::new(&SHA256)), damaged: None }
    }
}

/// Writes the sealed file. `block` is called with a block number and a buffer, and reads that block into the buffer.
pub(super) fn write(
    into: &File,
    index: &LineIndex,
    damaged: Option<u64>,
    mut block: impl FnMut(usize, &mut Vec<u8>) -> Result<(), LogError>,
) -> Result<LogSeal, LogError> {
    let mut out = BufWriter::with_capacity(BLOCK_BYTES, into);
    let mut packer = zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?;
    packer.include_checksum(true)?;
    let (mut digest, mut raw) = (Context::new(&SHA256), Vec::with_capacity(BLOCK_BYTES));
    let mut packed = Vec::with_capacity(zstd::zstd_safe::compress_bound(BLOCK_BYTES));
    let (mut entries, mut at) = (Vec::with_capacity(index.before().len() * ENTRY_BYTES), 0u64);
    for (number, before) in index.before().iter().enumerate() {
        block(number, &mut raw)?;
        digest.update(&raw);
        packed.clear();
        packer.compress_to_buffer(&raw, &mut packed)?;
        out.write_all(&packed)?;
        entries.extend(before.to_le_bytes());
        entries.extend(at.to_le_bytes());
        at += packed.len() as u64;
    }
    let sha256 = digest_of(digest);
    let mut tail = entries;
    for number in
        [index.length(), index.line_ends(), u64::from(index.ends_open()), damaged.unwrap_or(UNDAMAGED)]
    {
        tail.extend(number.to_le_bytes());
    }
    tail.extend(sha256);
    tail.extend(crc32fast::hash(&tail).to_le_bytes());
    tail.extend(MAGIC);
    out.write_all(&tail)?;
    out.flush()?;
    drop(out);
    into.sync_all()?;
    Ok(LogSeal { bytes: index.length(), lines: index.line_count(), sha256, damaged })
}

fn digest_of(context: Context) -> [u8; DIGEST_BYTES] {
    let mut bytes = [0; DIGEST_BYTES];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}

/// A sealed log, open for reading.
pub(super) struct SealedLog {
    file: File,
    pub(super) index: LineIndex,
    /// The offset of each block in the file, followed by the end offset of the last block.
    starts: Vec<u64>,
    pub(super) sealed: LogSeal,
    unpacker: zstd::bulk::Decompressor<'static>,
    packed: Vec<u8>,
}

impl SealedLog {
    pub(super) fn open(file: File) -> Result<Self, LogError> {
        let size = file.metadata()?.len();
        let trailer_at = size.checked_sub(TRAILER_BYTES as u64).ok_or(LogError::Corrupt("too short"))?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let (numbers, rest) = trailer.split_at(4 * 8);
        let (sha256, rest) = rest.split_at(DIGEST_BYTES);
        if rest[4..] != MAGIC {
            return Err(LogError::Corrupt("no trailer"));
        }
        let [length, line_ends, ends_open, damaged] = [0, 8, 16, 24].map(|at| number_at(numbers, at));
        if length > LOG_BYTES_MAX {
            return Err(LogError::Corrupt("too long"));
        }
        let blocks = usize::try_from(length.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX);
        let entries_at = trailer_at.checked_sub((blocks * ENTRY_BYTES) as u64);
        let entries_at = entries_at.ok_or(LogError::Corrupt("no index"))?;
        let mut checked = vec![0; blocks * ENTRY_BYTES];
        file.read_exact_at(&mut checked, entries_at)?;
        checked.extend_from_slice(&trailer[..TRAILER_BYTES - 8]);
        if crc32fast::hash(&checked).to_le_bytes() != rest[..4] {
            return Err(LogError::Corrupt("another checksum"));
        }
        let entry = |block: usize, half: usize| number_at(&checked, block * ENTRY_BYTES + half * 8);
        let before = (0..blocks).map(|block| entry(block, 0)).collect();
        let mut starts: Vec<u64> = (0..blocks).map(|block| entry(block, 1)).collect();
        starts.push(entries_at);
        let index = LineIndex::from_parts(before, line_ends, length, ends_open == 1);
        let index = index.ok_or(LogError::Corrupt("another index"))?;
        let mut sealed = LogSeal { bytes: length, lines: index.line_count(), sha256: [0; 32], damaged: None };
        sealed.sha256.copy_from_slice(sha256);
        sealed.damaged = (damaged != UNDAMAGED).then_some(damaged);
        let unpacker = zstd::bulk::Decompressor::new()?;
        Ok(Self { file, index, starts, sealed, unpacker, packed: Vec::new() })
    }

    /// Decompresses a block into a buffer.
    pub(super) fn block(&mut self, number: usize, into: &mut Vec<u8>) -> Result<(), LogError> {
        let [from, to] = self.starts[number..number + 2] else { return Err(LogError::Corrupt("no block")) };
        let size = to.checked_sub(from).and_then(|size| usize::try_from(size).ok());
        let size = size.filter(|size| *size <= zstd::zstd_safe::compress_bound(BLOCK_BYTES));
        self.packed.resize(size.ok_or(LogError::Corrupt("a block of no size"))?, 0);
        self.file.read_exact_at(&mut self.packed, from)?;
        into.clear();
        into.reserve(BLOCK_BYTES);
        let unpacked = self.unpacker.decompress_to_buffer(&self.packed, into);
        unpacked.map_err(|_| LogError::Corrupt("a block cannot be decompressed"))?;
        let left = self.index.length() - super::index::block_start(number);
        match into.len() as u64 == left.min(BLOCK_BYTES as u64) {
            true => Ok(()),
            false => Err(LogError::Corrupt("a block of another size")),
        }
    }
}

/// Reads exactly `count` bytes of a plain file.
pub(super) fn read_plain(file: &File, from: u64, into: &mut Vec<u8>, count: usize) -> io::Result<()> {
    into.resize(count, 0);
    file.read_exact_at(into, from)
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
