//! Conversions between Rust types and single columns.

use berth_core::access::AccessScope;
use berth_core::environment::fence::Fence;
use berth_core::id::{
    ActionLinkId, AnalysisId, ApprovalId, ChatDestinationId, ChatMessageId, DataKeyId, DeliveryId,
    DeploymentId, EffectId, EnvironmentId, EventId, ForgeAppId, GrantId, HookId, IdentityId, InvitationId,
    NotificationId, OrgId, PipelineId, RegistryId, RepositoryId, RunnerId, SecretId, SessionId, SignInId,
    StepRunId, TeamId, TicketGroupId, TicketId, TokenId, UserId, WebhookId,
};
use berth_core::name::{CommitId, Contact, DisplayName, Email, EnvName, Reason, Slug};
use berth_core::pipeline::grammar::{SecretName, StageName, StepId};
use berth_core::registry::RegistryName;
use berth_core::repository::RemoteUrl;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::SqlValue;

/// A type that can be read from a single column.
pub trait FromValue: Sized {
    /// The error does not quote the value, which may be a hash or personal data.
    fn from_value(value: SqlValue) -> Result<Self, String>;
}

/// A type that can be written to a single column.
pub trait ToValue {
    fn to_value(&self) -> Result<SqlValue, StoreError>;
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        if value == SqlValue::Null { Ok(None) } else { T::from_value(value).map(Some) }
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        self.as_ref().map_or(Ok(SqlValue::Null), ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        (*self).to_value()
    }
}

/// Implements the conversions for types that are stored as integers.
macro_rules! integers {
    ($($type:ty: $from:expr, $to:expr;)+) => {$(
        impl FromValue for $type {
            fn from_value(value: SqlValue) -> Result<Self, String> {
                let SqlValue::Int(number) = value else { return Err(unexpected_type("an integer", &value)) };
                let from: fn(i64) -> Option<Self> = $from;
                from(number).ok_or_else(|| format!("{number} is out of range"))
            }
        }
        impl ToValue for $type {
            fn to_value(&self) -> Result<SqlValue, StoreError> {
                let to: fn(&Self) -> i64 = $to;
                Ok(SqlValue::Int(to(self)))
            }
        }
    )+};
}
integers! {
    i64: Some, |it| *it;
    u16: |number| u16::try_from(number).ok(), |it| i64::from(*it);
    usize: |number| usize::try_from(number).ok(), |it| i64::try_from(*it).unwrap_or(i64::MAX);
    u32: |number| u32::try_from(number).ok(), |it| i64::from(*it);
    bool: |number| Some(number != 0), |it| i64::from(*it);
    Timestamp: |number| Some(Timestamp::from_micros(number)), |it| it.as_micros();
    Fence: |number| Some(Self::from_number(number)), |it| it.number();
}

impl FromValue for String {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        match value {
            SqlValue::Text(text) => Ok(text),
            other => Err(unexpected_type("text", &other)),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        match value {
            SqlValue::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected_type("bytes", &other)),
        }
    }
}

impl ToValue for str {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        Ok(self.into())
    }
}

impl ToValue for String {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        Ok(self.as_str().into())
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        Ok(self.into())
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        self.as_slice().to_value()
    }
}

/// Implements the conversions for types that are stored as text, written with `Display` and read with
/// `TryFrom<String>`.
macro_rules! text_columns {
    ($($type:ty),+ $(,)?) => {$(
        impl FromValue for $type {
            fn from_value(value: SqlValue) -> Result<Self, String> {
                Self::try_from(String::from_value(value)?).map_err(|error| error.to_string())
            }
        }
        impl ToValue for $type {
            fn to_value(&self) -> Result<SqlValue, StoreError> {
                Ok(SqlValue::Text(self.to_string()))
            }
        }
    )+};
}
text_columns! {
    ActionLinkId, AnalysisId, ApprovalId, ChatDestinationId, ChatMessageId, DataKeyId, DeliveryId, DeploymentId, EffectId, EnvironmentId, EventId, ForgeAppId, GrantId, HookId, IdentityId, InvitationId, NotificationId,
    OrgId, PipelineId, RegistryId, RepositoryId, RunnerId, SecretId, SessionId, SignInId, StepRunId, TeamId,
    TicketGroupId, TicketId, TokenId, UserId, WebhookId,
    AccessScope, CommitId, Contact, DisplayName, Email, EnvName, Reason, RegistryName, RemoteUrl, SecretName, Slug, StageName, StepId,
}

/// Implements the conversions for enums that are stored as words. Takes a list of the variants; `as_str` returns the
/// word of each.
macro_rules! word_columns {
    ($($type:ty: $all:expr),+ $(,)?) => {$(
        impl $crate::sql::FromValue for $type {
            fn from_value(value: $crate::sql::value::SqlValue) -> Result<Self, String> {
                let word = <String as $crate::sql::FromValue>::from_value(value)?;
                $all.iter().copied().find(|it| it.as_str() == word).ok_or_else(|| format!("unknown word {word}"))
            }
        }
        impl $crate::sql::ToValue for $type {
            fn to_value(&self) -> Result<$crate::sql::value::SqlValue, $crate::error::StoreError> {
                Ok(self.as_str().into())
            }
        }
    )+};
}
pub(crate) use word_columns;

/// Implements the conversions for types that are stored as JSON.
macro_rules! json_columns {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::sql::FromValue for $type {
            fn from_value(value: $crate::sql::value::SqlValue) -> Result<Self, String> {
                let text = <String as $crate::sql::FromValue>::from_value(value)?;
                serde_json::from_str(&text).map_err(|error| error.to_string())
            }
        }
        impl $crate::sql::ToValue for $type {
            fn to_value(&self) -> Result<$crate::sql::value::SqlValue, $crate::error::StoreError> {
                $crate::sql::value::to_json(self).map($crate::sql::value::SqlValue::Text)
            }
        }
    )+};
}
pub(crate) use json_columns;

/// Implements the conversions for collections that are stored as JSON, or as NULL if they are empty.
macro_rules! sparse_json_columns {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::sql::FromValue for $type {
            fn from_value(value: $crate::sql::value::SqlValue) -> Result<Self, String> {
                if value == $crate::sql::value::SqlValue::Null {
                    return Ok(Self::default());
                }
                let text = <String as $crate::sql::FromValue>::from_value(value)?;
                serde_json::from_str(&text).map_err(|error| error.to_string())
            }
        }
        impl $crate::sql::ToValue for $type {
            fn to_value(&self) -> Result<$crate::sql::value::SqlValue, $crate::error::StoreError> {
                let json = (!self.is_empty()).then(|| $crate::sql::value::to_json(self)).transpose()?;
                Ok(json.into())
            }
        }
    )+};
}
pub(crate) use sparse_json_columns;

fn unexpected_type(wanted: &str, found: &SqlValue) -> String {
    let found = match found {
        SqlValue::Null => "null",
        SqlValue::Int(_) => "an integer",
        SqlValue::Text(_) => "text",
        SqlValue::Bytes(_) => "bytes",
    };
    format!("expected {wanted}, found {found}")
}
