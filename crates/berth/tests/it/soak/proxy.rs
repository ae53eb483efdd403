//! Current addresses of the servers, and for each runner a proxy that can be cut off.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use std::time::Duration;

use super::SERVERS;

/// Port of each server; 0 while it is down.
#[derive(Default)]
pub(super) struct ServerPorts([AtomicU16; SERVERS]);

impl ServerPorts {
    pub(super) fn open(&self, server: usize, address: SocketAddr) {
        self.0[server].store(address.port(), Ordering::SeqCst);
    }

    pub(super) fn close(&self, server: usize) {
        self.0[server].store(0, Ordering::SeqCst);
    }

    pub(super) fn address(&self, server: usize) -> Option<SocketAddr> {
        let port = self.0[server].load(Ordering::SeqCst);
        (port != 0).then(|| (Ipv4Addr::LOCALHOST, port).into())
    }
}

const PIECE_BYTES: usize = 16 * 1024;

/// Forwards each connection of a runner to the next server that is up.
pub(super) struct RunnerProxy {
    pub(super) address: SocketAddr,
    /// Forwarding takes the read lock; a cut-off takes the write lock.
    open: Arc<RwLock<()>>,
}

impl RunnerProxy {
    pub(super) fn start(ports: &Arc<ServerPorts>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let open = Arc::new(RwLock::new(()));
        let (ports, is_open) = (ports.clone(), open.clone());
        std::thread::spawn(move || {
            let turn = AtomicUsize::new(0);
            for here in listener.incoming().flatten() {
                let first = turn.fetch_add(1, Ordering::Relaxed);
                let mut next = (first..first + SERVERS).filter_map(|number| ports.address(number % SERVERS));
                if let Some(there) = next.find_map(|address| TcpStream::connect(address).ok()) {
                    forward(&here, &there, &is_open);
                    forward(&there, &here, &is_open);
                }
            }
        });
        Self { address, open }
    }

    /// Blocks all traffic until the guard is dropped. Connections stay open, and bytes in flight arrive late.
    pub(super) fn block(&self) -> RwLockWriteGuard<'_, ()> {
        self.open.write().expect("unpoisoned")
    }

    /// Blocks all traffic for this long.
    pub(super) fn cut_off(&self, ms: u64) {
        let open = self.open.clone();
        std::thread::spawn(move || {
            let _shut = open.write().expect("unpoisoned");
            std::thread::sleep(Duration::from_millis(ms));
        });
    }
}

fn forward(from: &TcpStream, to: &TcpStream, is_open: &Arc<RwLock<()>>) {
    let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
    let is_open = is_open.clone();
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            drop(is_open.read().expect("unpoisoned"));
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        // If one side closes the connection, close both.
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
