//! Rate limit for login attempts. Each attempt is counted before the password is verified, so that concurrent attempts
//! cannot exceed the limit.
//!
//! Ten failures within a minute lock an account only for the network that they came from, so that an attacker cannot
//! lock out the user. Ten failures from any networks delay further attempts on the account. A hundred failures from one
//! network, on any accounts, lock that network.

use std::net::IpAddr;

use berth_api::problem::{Code, ProblemDetails};
use berth_core::name::Email;
use berth_store::tables::sign_in::{self, DAILY_FAILURES_PREFIX};
use berth_store::{Tx, TxContext};

use super::App;
use crate::error::AppError;
use crate::limits::{
    CODE_FAILURE_WINDOW_S, CODE_FAILURES_PER_DAY_MAX, LOGIN_FAILURE_WINDOW_S, LOGIN_FAILURES_PER_ACCOUNT_MAX,
    LOGIN_FAILURES_PER_NETWORK_MAX, LOGIN_SLOW_DOWN,
};

/// The names of the failure counters that a login attempt increments.
#[derive(Clone)]
pub(super) struct ThrottleKeys {
    account: String,
    network: String,
    /// Counter for this account from this network.
    pair: String,
    /// Counter for a whole day, for codes that are short enough to be guessed within weeks.
    day: Option<String>,
}

impl ThrottleKeys {
    pub(super) fn new(email: &Email, address: IpAddr) -> Self {
        let (email, network) = (email.key(), network_of(address));
        Self {
            account: format!("account:{email}"),
            pair: format!("pair:{email} {network}"),
            network: format!("network:{network}"),
            day: None,
        }
    }

    /// Counters for an attempt to log in through an identity provider. The account is not known yet, so only the network
    /// is limited.
    pub(super) fn for_provider(provider: &str, address: IpAddr) -> Self {
        let network = network_of(address);
        Self {
            account: format!("provider account:{provider} {network}"),
            pair: format!("provider pair:{provider} {network}"),
            network: format!("network:{network}"),
            day: None,
        }
    }

    /// Counters for an attempt from a browser in which the account has logged in before. They are separate, so that
    /// failures from other browsers neither lock nor delay this one.
    pub(super) fn for_known_browser(id: &str) -> Self {
        Self {
            account: format!("browser account:{id}"),
            network: format!("browser network:{id}"),
            pair: format!("browser:{id}"),
            day: None,
        }
    }

    /// Counters for a logged-in user who confirms their own password.
    pub(super) fn for_own_account(email: &Email) -> Self {
        let email = email.key();
        Self {
            account: format!("own account:{email}"),
            network: format!("own network:{email}"),
            pair: format!("own:{email}"),
            day: None,
        }
    }

    /// Counters for codes of a second factor, entered together with the correct password.
    pub(super) fn for_code(email: &Email, known_browser: Option<&str>) -> Self {
        let of = known_browser.map_or_else(|| email.key(), |id| format!("browser {id}"));
        Self {
            account: format!("code account:{of}"),
            network: format!("code network:{of}"),
            pair: format!("code:{of}"),
            day: known_browser.is_none().then(|| format!("{DAILY_FAILURES_PREFIX}{of}")),
        }
    }

    fn subjects(&self) -> [&str; 3] {
        [&self.account, &self.network, &self.pair]
    }

    /// Counts an attempt with a code, or refuses it if there were too many wrong codes within a day.
    fn count_in_day(&self, tx: &mut Tx<'_>) -> Result<(), AppError> {
        let Some(day) = &self.day else { return Ok(()) };
        let since = tx.now().plus_seconds(-CODE_FAILURE_WINDOW_S);
        if sign_in::count_failures(tx, day, since)? >= CODE_FAILURES_PER_DAY_MAX {
            let text = "too many wrong codes within a day; log in from a browser that you have used before, or ask an \
                        admin to reset your second factor";
            return Err(AppError::new(Code::RateLimited, text));
        }
        Ok(sign_in::record_failure(tx, day, since)?)
    }
}

impl App {
    /// Counts the attempt as a failure in advance, or refuses it. If this succeeds, the password may be verified.
    pub(super) async fn count_attempt(
        &self,
        context: TxContext,
        tried: ThrottleKeys,
    ) -> Result<(), AppError> {
        let fails_everywhere = self.services.store.transact(context, move |tx| {
            let since = tx.now().plus_seconds(-LOGIN_FAILURE_WINDOW_S);
            let count = |tx: &mut Tx<'_>, subject: &str| sign_in::count_failures(tx, subject, since);
            if count(tx, &tried.pair)? >= LOGIN_FAILURES_PER_ACCOUNT_MAX
                || count(tx, &tried.network)? >= LOGIN_FAILURES_PER_NETWORK_MAX
            {
                let text = "too many failed logins; wait a minute and try again";
                return Err(ProblemDetails::new(Code::RateLimited, text)
                    .with_member("retryAfterSeconds", LOGIN_FAILURE_WINDOW_S)
                    .into());
            }
            tried.count_in_day(tx)?;
            let fails_everywhere = count(tx, &tried.account)? >= LOGIN_FAILURES_PER_ACCOUNT_MAX;
            for subject in tried.subjects() {
                sign_in::record_failure(tx, subject, since)?;
            }
            Ok::<_, AppError>(fails_everywhere)
        });
        if fails_everywhere.await? {
            tokio::time::sleep(LOGIN_SLOW_DOWN).await;
        }
        Ok(())
    }

    /// Removes an attempt from the counters because its password was correct.
    pub(super) fn uncount_attempt(tx: &mut Tx<'_>, tried: &ThrottleKeys) -> Result<(), AppError> {
        for subject in tried.subjects().into_iter().chain(tried.day.as_deref()) {
            sign_in::uncount_failure(tx, subject)?;
        }
        Ok(())
    }
}

/// Returns the /24 (IPv4) or /64 (IPv6) network of an address. Failures are counted per network, so that an attacker
/// gains no attempts by using neighbouring addresses.
pub(super) fn network_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::network_of;

    #[test]
    fn neighbouring_addresses_share_network() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("10.1.2.3"), of("10.1.2.250"));
        assert_eq!(of("::ffff:10.1.2.3"), of("10.1.2.9"));
        assert_eq!(of("2001:db8:1:2:3::1"), of("2001:db8:1:2:4::2"));
        assert_ne!(of("10.1.2.3"), of("10.1.3.3"));
    }
}
