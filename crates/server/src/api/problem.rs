//! Every refusal: `application/problem+json` with our code (RFC 9457).

use crate::{
    node::{NodeError, Overload},
    quotas::QuotaExceeded,
};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mundi_model::{CallId, Code, Coded, Height, Kind, ParseIdError, WorldId};
use mundi_runtime::RuntimeError;
use mundi_store::StoreError;
use serde::Serialize;
use std::num::NonZeroU16;

/// Why a request was refused.
#[derive(Debug, Clone)]
pub struct Problem {
    pub code: Code,
    /// The details of this occurrence.
    pub detail: String,
    /// Where the reply to a call will be, if it was not waited for to its end.
    pub(crate) call: Option<CallId>,
    /// The height of the step that failed, if one did.
    pub(crate) height: Option<Height>,
    /// The quota that allows no more.
    pub(crate) quota: Option<Box<QuotaExceeded>>,
    /// Of a command of a pool: whether it is known what became of it.
    pub(crate) outcome: Option<&'static str>,
    /// Of a command of a pool: the kernel's result.
    pub(crate) result: Option<&'static str>,
    /// After how many seconds it may be tried again, if that is known.
    pub(crate) retry_after_s: Option<NonZeroU16>,
}

/// A problem as it is sent.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Body<'a> {
    /// `urn:mundi:error:CODE`.
    #[serde(rename = "type")]
    uri: String,
    /// The meaning of the code.
    title: &'a str,
    status: u16,
    /// The details of this occurrence.
    detail: &'a str,
    /// Stable; `mundi explain CODE` prints what is known of each.
    code: &'a str,
    /// The class of the error, by the caller's next step: `conflict`, `not_found`, `invalid`, `fenced`, `full`, `unavailable` or `corrupt`.
    kind: &'a str,
    /// Advice in one sentence.
    hint: &'a str,
    /// Under what the reply to the call can be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    /// The height of the record whose step failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
    /// Of `QUOTA_EXCEEDED`: the quota that allows no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'static str>,
    /// The owner of the quota: `universe` or `token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// The use that counts against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<u64>,
    /// As the header `Retry-After` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
    /// Of a command of a pool: `definite`, or `indefinite` if it may have been carried out; then send the same again, with the same
    /// operation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// Of a command of a pool: its result code.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'static str>,
}

/// A problem is sent as this.
const CONTENT_TYPE: &str = "application/problem+json";

/// After how many seconds what is full or unavailable may be tried again. What is overloaded needs longer than what is only busy.
fn retry_after_s(code: Code) -> u64 {
    match code {
        Code::NodeOverloaded | Code::WorldOverloaded => 10,
        _ => 1,
    }
}

impl Problem {
    fn retry_after_s(&self) -> u64 {
        let known = self.retry_after_s.map(|seconds| u64::from(seconds.get()));
        known.or(self.quota.as_deref().map(QuotaExceeded::retry_after_s)).unwrap_or_else(|| retry_after_s(self.code))
    }

    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            call: None,
            height: None,
            quota: None,
            retry_after_s: None,
            outcome: None,
            result: None,
        }
    }

    /// For a command of a pool: what is unavailable may have been carried out all the same, everything else was surely not.
    pub(crate) fn with_outcome(self) -> Self {
        let is_known = !matches!(self.code.kind(), Kind::Unavailable | Kind::Corrupt);
        Self { outcome: Some(if is_known { "definite" } else { "indefinite" }), ..self }
    }

    /// For a command of a pool that was refused before it was sent: it was surely not carried out.
    pub(crate) fn not_sent(self) -> Self {
        Self { outcome: Some("definite"), ..self }
    }

    /// For a command of several shards of a pool, some of which carried it out already: sent again, it is finished.
    pub(crate) fn in_part(self) -> Self {
        Self { outcome: Some("indefinite"), ..self }
    }

    /// The refusal of a pool.
    pub(crate) fn with_result(self, result: &'static str) -> Self {
        Self { result: Some(result), ..self.with_outcome() }
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::RequestInvalid, detail)
    }

    fn body(&self) -> Vec<u8> {
        let Self { code, detail, call, height, outcome, result, .. } = self;
        let quota = self.quota.as_deref();
        let body = Body {
            uri: format!("urn:mundi:error:{code}"),
            title: code.meaning(),
            status: status(*code).as_u16(),
            detail,
            code: code.as_str(),
            kind: code.kind().as_str(),
            hint: code.hint(),
            call: call.map(|call| call.to_string()),
            height: height.map(Height::get),
            quota: quota.map(|exceeded| exceeded.quota.as_str()),
            scope: quota.map(|exceeded| exceeded.scope.as_str()),
            limit: quota.map(|exceeded| exceeded.limit),
            current: quota.map(|exceeded| exceeded.current),
            retry_after_s: quota.map(|exceeded| exceeded.retry_after_s()),
            outcome: *outcome,
            result: *result,
        };
        // Texts and a number: there is nothing that could fail.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// The same for a client that named a world: it does not know the id that the detail speaks of.
    pub(crate) fn naming(mut self, name: &str, world: WorldId) -> Self {
        let id = world.to_string();
        if name != id && self.detail.contains(&id) {
            self.detail = self.detail.replace(&id, &format!("`{name}` ({id})"));
        }
        self
    }

    /// A whole answer, for a connection that is closed with it.
    pub(crate) fn to_http(&self) -> Vec<u8> {
        let (status, body) = (status(self.code), self.body());
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {}\r\nretry-after: {}\r\n\
             connection: close\r\n\r\n",
            body.len(),
            self.retry_after_s()
        );
        [head.into_bytes(), body].concat()
    }

    fn of(error: &(impl Coded + ToString)) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

fn status(code: Code) -> StatusCode {
    match code {
        Code::TokenMissing => StatusCode::UNAUTHORIZED,
        Code::TokenDenied | Code::OriginDenied => StatusCode::FORBIDDEN,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::CallTimeout => StatusCode::GATEWAY_TIMEOUT,
        Code::WorldElsewhere => StatusCode::MISDIRECTED_REQUEST,
        Code::RequestTooLarge
        | Code::InboxItemTooLarge
        | Code::BlobTooLarge
        | Code::ItemTooLarge
        | Code::ValueTooLarge
        | Code::TransactionTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        // The world took it in, and its program could not do it.
        Code::ProgramFailed
        | Code::ProgramPanicked
        | Code::ProgramTrapped
        | Code::BudgetExhausted
        | Code::OutputRefused
        | Code::StepSkipped => StatusCode::UNPROCESSABLE_ENTITY,
        code => match code.kind() {
            Kind::Conflict | Kind::Fenced => StatusCode::CONFLICT,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Full => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, status) = (self.code, status(self.code));
        if status.is_server_error() && status != StatusCode::GATEWAY_TIMEOUT {
            tracing::warn!(%code, detail = self.detail, "a request failed");
        }
        self.response()
    }
}

impl Problem {
    /// The answer, without a line in the log.
    pub(crate) fn response(self) -> Response {
        let (code, status, retry_after_s) = (self.code, status(self.code), self.retry_after_s());
        let mut response = (status, self.body()).into_response();
        response.extensions_mut().insert(self);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if code == Code::ConnectionsFull {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        ) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

macro_rules! problems {
    ($($error:ty),*) => {$(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::of(&error)
            }
        }
    )*};
}
problems!(NodeError, StoreError, ParseIdError);

impl From<Overload> for Problem {
    fn from(overload: Overload) -> Self {
        match overload {
            Overload::InboxAge { age, max } => {
                let detail = format!(
                    "the oldest item of its inbox has waited for {} s; the bound is {} s",
                    age.as_secs(),
                    max.as_secs()
                );
                Self::new(Code::WorldOverloaded, detail)
            }
            Overload::Memory { bytes, max } => {
                let detail = format!("the process has {bytes} bytes in memory; the bound is {max}");
                Self::new(Code::NodeOverloaded, detail)
            }
        }
    }
}

impl From<QuotaExceeded> for Problem {
    fn from(exceeded: QuotaExceeded) -> Self {
        Self { quota: Some(Box::new(exceeded)), ..Self::of(&exceeded) }
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        let call = match &error {
            RuntimeError::CallTimeout { call, .. } => Some((*call).into()),
            _ => None,
        };
        let retry_after_s = match &error {
            RuntimeError::QueryHeldBack { left_ms, .. } => {
                NonZeroU16::new(u16::try_from(left_ms.div_ceil(1_000)).unwrap_or(u16::MAX))
            }
            _ => None,
        };
        Self { call, retry_after_s, ..Self::of(&error) }
    }
}
