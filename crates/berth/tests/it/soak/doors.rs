//! Where the servers are now, and one address in front of them for runners.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use super::SERVERS;

/// The port of each server; none while it is away.
#[derive(Default)]
pub(super) struct Doors([AtomicU16; SERVERS]);

impl Doors {
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

/// Passes every connection on to the next server that is there.
pub(super) fn in_front_of(doors: &Arc<Doors>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("its address");
    let doors = doors.clone();
    std::thread::spawn(move || {
        let turn = AtomicUsize::new(0);
        for here in listener.incoming().flatten() {
            let first = turn.fetch_add(1, Ordering::Relaxed);
            let mut next = (first..first + SERVERS).filter_map(|number| doors.address(number % SERVERS));
            if let Some(there) = next.find_map(|address| TcpStream::connect(address).ok()) {
                pass(&here, &there);
                pass(&there, &here);
            }
        }
    });
    address
}

fn pass(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
    std::thread::spawn(move || {
        // An end of one side is an end of both.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
