//! Emails, sent through a real SMTP server.

use std::time::Duration;

use berth_server::jobs::send_notification_mails;
use berth_testkit::{ReceivedMail, SmtpSink, outcome};
use serde_json::{Value, json};

use super::{NotificationFixture, ORG};
use crate::jobs_with_runner::JobsWithRunner;
use crate::world::POLL_EVERY;

/// Creates an SMTP server. Reports it if aiosmtpd is not installed.
fn new_sink() -> Option<SmtpSink> {
    let sink = SmtpSink::new_if_installed();
    if sink.is_none() {
        outcome::skip("aiosmtpd", "`cargo xtask test` installs it and names its Python in BERTH_TEST_PYTHON");
    }
    sink
}

impl NotificationFixture {
    async fn send_mails(&self) {
        self.create_notifications().await;
        send_notification_mails(self.world.app.jobs()).await.unwrap();
    }

    /// Ada takes qa-1 over from Grace.
    async fn take_over(&self, reason: &str) {
        self.claim(&self.grace, &json!({})).await;
        let won = self.force_claim(&self.ada, &json!({"reason": reason})).await;
        self.release(&self.ada, &won).await;
    }

    /// Makes all emails due that are still to be sent.
    fn make_mails_due(&self) {
        self.world.run_sql("UPDATE notifications SET mail_due_at = 0 WHERE mail_due_at IS NOT NULL");
    }
}

/// Polls until the server has this many messages.
async fn wait_for_mails(sink: &SmtpSink, count: usize) -> Vec<ReceivedMail> {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while sink.messages().len() < count {
            tokio::time::sleep(POLL_EVERY).await;
        }
        sink.messages()
    });
    waited.await.unwrap_or_else(|_| panic!("{:?} of {count} messages", sink.messages()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeover_is_sent_to_the_loser_by_email() {
    let Some(mut sink) = new_sink() else { return };
    sink.start();
    let shop = NotificationFixture::with_smtp(sink.port).await;
    shop.take_over("production is down").await;
    shop.send_mails().await;
    let [mail] = sink.messages().try_into().unwrap();
    assert_eq!(mail.to, "grace@acme.test");
    assert_eq!(mail.header("From"), "Berth <berth@acme.test>");
    assert_eq!(mail.header("Subject"), "ada took qa-1 of shop over from grace: production is down");
    let text = mail.text();
    assert!(text.contains("http://berth.localhost:8080/o/acme/environments/shop/qa-1\n"), "{text}");
    shop.send_mails().await;
    assert_eq!(sink.messages().len(), 1, "it is sent once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flood_of_notifications_becomes_one_email() {
    let Some(mut sink) = new_sink() else { return };
    sink.start();
    let shop = NotificationFixture::with_smtp(sink.port).await;
    shop.take_over("first").await;
    shop.send_mails().await;
    for reason in ["second", "third", "fourth"] {
        shop.take_over(reason).await;
    }
    shop.send_mails().await;
    assert_eq!(sink.messages().len(), 1, "the others wait for the digest");
    shop.make_mails_due();
    shop.send_mails().await;
    let mails = sink.messages();
    assert_eq!((mails.len(), mails[1].header("Subject")), (2, "3 notifications of acme"));
    let text = mails[1].text();
    assert!(["second", "third", "fourth"].iter().all(|reason| text.contains(reason)), "{text}");
}

#[tokio::test]
async fn notification_beyond_the_limit_of_pending_emails_is_only_in_the_inbox() {
    let shop = NotificationFixture::with_smtp(1).await;
    shop.take_over("first").await;
    shop.create_notifications().await;
    shop.world.run_sql(
        "INSERT INTO notifications (org_id, id, user_id, event_id, sequence, event_kind, cause, summary, subject,
           in_inbox, created_at, read_at, mail_due_at, mail_failures, mailed_at)
         WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 998)
         SELECT org_id, id || '-' || i, user_id, event_id, -i, event_kind, cause, summary, subject,
           in_inbox, created_at, read_at, mail_due_at, mail_failures, mailed_at FROM notifications, numbers",
    );
    let pending = "SELECT COUNT(*) FROM notifications WHERE mail_due_at IS NOT NULL";
    for (reason, in_inbox) in [("second", 1_000), ("third", 1_001)] {
        shop.take_over(reason).await;
        shop.create_notifications().await;
        assert_eq!(shop.world.count_rows(pending), 1_000, "{reason}");
        assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM notifications"), in_inbox, "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_notification_is_not_sent_by_email() {
    let Some(mut sink) = new_sink() else { return };
    let shop = NotificationFixture::with_smtp(sink.port).await;
    shop.take_over("x").await;
    shop.create_notifications().await;
    shop.post(&format!("{ORG}/notifications/read-all"), &shop.grace, &json!({})).await;
    sink.start();
    shop.make_mails_due();
    shop.send_mails().await;
    assert_eq!(sink.messages(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_access_cancels_the_email() {
    let Some(mut sink) = new_sink() else { return };
    sink.start();
    let shop = NotificationFixture::with_smtp(sink.port).await;
    shop.take_over("x").await;
    shop.create_notifications().await;
    let path = format!("{ORG}/members/{}", shop.user_id(&shop.grace).await);
    let demote = crate::world::call("PATCH", &path).with_account(&shop.ada).json(&json!({"role": "member"}));
    assert_eq!(shop.send(demote).await.status, 200);
    shop.send_mails().await;
    assert_eq!(sink.messages(), []);
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM notifications WHERE mail_due_at IS NOT NULL"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn email_arrives_once_the_smtp_server_is_back_and_delays_nothing_else() {
    let Some(mut sink) = new_sink() else { return };
    let shop = NotificationFixture::with_smtp(sink.port).await;
    let running = JobsWithRunner::start(&shop.world.app);
    shop.take_over("while it is down").await;
    let failures = "SELECT CAST(COALESCE(MAX(mail_failures), 0) AS BIGINT) FROM notifications";
    let failed = tokio::time::timeout(Duration::from_secs(60), async {
        while shop.world.count_rows(failures) == 0 {
            tokio::time::sleep(POLL_EVERY).await;
        }
    });
    failed.await.expect("an attempt fails");
    // The inbox and all other work go on.
    assert_eq!(shop.list(&shop.grace, "").await.len(), 1);
    shop.take_over("again").await;
    sink.start();
    let is_there = |mails: &[ReceivedMail]| mails.iter().any(|it| it.text().contains("while it is down"));
    let mut count = 1;
    while !is_there(&wait_for_mails(&sink, count).await) {
        count += 1;
    }
    assert!(sink.messages().iter().all(|mail| mail.to == "grace@acme.test"));
    running.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_email_is_kept_for_the_next_attempt() {
    let Some(mut sink) = new_sink() else { return };
    let shop = NotificationFixture::with_smtp(sink.port).await;
    shop.take_over("x").await;
    shop.send_mails().await;
    shop.make_mails_due();
    shop.send_mails().await;
    assert_eq!(shop.world.count_rows("SELECT mail_failures FROM notifications"), 2);
    let due = "SELECT COUNT(*) FROM notifications WHERE mail_due_at > 0";
    assert_eq!(shop.world.count_rows(due), 1, "the next attempt is planned");
    sink.start();
    shop.make_mails_due();
    shop.send_mails().await;
    assert_eq!(sink.messages().len(), 1);
}

#[tokio::test]
async fn without_smtp_server_no_email_is_planned() {
    let shop = NotificationFixture::new().await;
    shop.take_over("x").await;
    let inbox: Vec<Value> = shop.inbox(&shop.grace).await;
    assert_eq!(inbox.len(), 1);
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM notifications WHERE mail_due_at IS NOT NULL"), 0);
}
