//! The text form of Prometheus: a line that says what a number is, and then the number.

use std::fmt::{Display, Write as _};

#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// What follows, up to the next call, are samples of this.
    pub(super) fn about(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    /// One number without labels.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.about(name, kind, help);
        self.sample(name, &[], value);
    }

    /// `within` are the counts up to each bound, in seconds.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        within: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum_seconds: f64,
    ) {
        let bucket = format!("{name}_bucket");
        for (bound, within) in within {
            let bound = bound.to_string();
            self.sample(&bucket, &[labels, &[("le", bound.as_str())]].concat(), within);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), count);
        self.sample(&format!("{name}_sum"), labels, sum_seconds);
        self.sample(&format!("{name}_count"), labels, count);
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_form_is_that_of_prometheus() {
        let mut text = Text::default();
        text.single("berth_up", "gauge", "Always one.", 1);
        text.about("berth_took_seconds", "histogram", "How long.");
        text.histogram(
            "berth_took_seconds",
            &[("route", "a\"b")],
            [(0.005, 1), (1.0, 2)].into_iter(),
            3,
            4.5,
        );
        expect![[r#"
            # HELP berth_up Always one.
            # TYPE berth_up gauge
            berth_up 1
            # HELP berth_took_seconds How long.
            # TYPE berth_took_seconds histogram
            berth_took_seconds_bucket{route="a\"b",le="0.005"} 1
            berth_took_seconds_bucket{route="a\"b",le="1"} 2
            berth_took_seconds_bucket{route="a\"b",le="+Inf"} 3
            berth_took_seconds_sum{route="a\"b"} 4.5
            berth_took_seconds_count{route="a\"b"} 3
        "#]]
        .assert_eq(&text.finish());
    }
}
