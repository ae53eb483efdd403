//! Clients, runners and servers that crash, pause, repeat themselves and lie.
