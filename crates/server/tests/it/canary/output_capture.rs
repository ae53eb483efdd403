//! Captures the log of this process (at trace level for Berth's crates) and every panic.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::EnvFilter;

#[derive(Clone, Default)]
pub(crate) struct OutputCapture {
    log: Arc<Mutex<Vec<u8>>>,
    panics: Arc<Mutex<String>>,
}

impl OutputCapture {
    /// Installs the capture, once per process.
    pub(crate) fn get_or_install() -> Self {
        static ONE: OnceLock<OutputCapture> = OnceLock::new();
        ONE.get_or_init(Self::install).clone()
    }

    fn install() -> Self {
        let watch = Self::default();
        let writer = watch.clone();
        let filter = EnvFilter::new("info,berth_core=trace,berth_store=trace,berth_server=trace");
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        lines.with_writer(move || writer.clone()).init();
        let (before, panics) = (std::panic::take_hook(), watch.panics.clone());
        std::panic::set_hook(Box::new(move |panic| {
            panics.lock().unwrap().push_str(&format!("{panic}\n"));
            before(panic);
        }));
        watch
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.lock().unwrap()).into_owned()
    }

    pub(crate) fn panics(&self) -> String {
        self.panics.lock().unwrap().clone()
    }
}

impl Write for OutputCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.log.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
