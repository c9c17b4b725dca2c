//! The server: the page, its rules and its script, and answers to questions.
//!
//! Source: RFC 9110 (HTTP semantics); W3C, "Content Security Policy Level 3"; the defence against DNS rebinding is to look at the host.
//! Modelled: one machine, one port, requests that read. Not modelled: accounts, encryption; for more than this machine, put a server that has
//! them in front.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use fabriscope_catalog::{Catalog, CatalogError};
use tokio::net::TcpListener;

use crate::answer::Reply;
use crate::children::{Children, Settings, Unanswered};
use crate::page;
use crate::question::Question;
use crate::refused::Refused;

/// Why a server does not start.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not free, or none of this machine.
    #[error("{address} cannot be served: {cause}")]
    #[diagnostic(help("choose another port: --address 127.0.0.1:8080; port 0 takes a free one"))]
    Address {
        /// What was asked for.
        address: SocketAddr,
        /// What the system says.
        cause: std::io::Error,
    },
    /// The system gives no threads, timers or files.
    #[error("the server does not run: {cause}")]
    #[diagnostic(help("see how many files and processes you may have: ulimit -a"))]
    System {
        /// What the system says.
        cause: std::io::Error,
    },
    /// A fault in the catalogue.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Catalog(#[from] CatalogError),
}

/// Serves the page until the process is interrupted; `ready` hears the address, with the port that was free.
///
/// # Errors
/// The address is not free; a fault in the catalogue.
pub fn serve(catalog: &Catalog, address: SocketAddr, settings: Settings, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let system = |cause| ServeError::System { cause };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(system)?;
    let index = page::index(catalog)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(|cause| ServeError::Address { address, cause })?;
        let own = listener.local_addr().map_err(system)?;
        ready(own);
        let app = router(Arc::new(Site { index, style: page::style(), children: Children::new(settings), local: own.ip().is_loopback() }));
        let serving = axum::serve(listener, app).into_future();
        tokio::select! {
            done = serving => done.map_err(system),
            _ = tokio::signal::ctrl_c() => Ok(()),
        }
    })
}

/// What is served.
struct Site {
    index: String,
    style: String,
    children: Children,
    /// For this machine alone.
    local: bool,
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(|State(site): State<Arc<Site>>| async move { typed("text/html; charset=utf-8", site.index.clone()) }))
        .route("/page.css", get(|State(site): State<Arc<Site>>| async move { typed("text/css; charset=utf-8", site.style.clone()) }))
        .route("/page.js", get(|| async { typed("text/javascript; charset=utf-8", page::SCRIPT) }))
        .route("/answer", get(answer))
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, Refused::told("there is no such page here", "the page is at /")) })
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

async fn answer(State(site): State<Arc<Site>>, RawQuery(query): RawQuery) -> Response {
    let question = match Question::parse(&query.unwrap_or_default()) {
        Ok(question) => question,
        // A question that is understood and has no answer is answered so; so is this one.
        Err(refused) => return refusal(StatusCode::OK, refused),
    };
    match site.children.ask(&question).await {
        Ok(reply) => typed("application/json", Body::from(reply.to_vec())),
        Err(unanswered) => {
            let status = match unanswered {
                Unanswered::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
                Unanswered::TooLong { .. } | Unanswered::TooMuch { .. } => StatusCode::OK,
                Unanswered::Ended { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            };
            refusal(status, unanswered.refused())
        }
    }
}

/// Turns away pages of other sites that were led here, and tells browsers what this one needs.
async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let mut response = if site.local && !is_here(host) {
        let refused =
            Refused::told(format!("this server is not `{host}`"), "open it as http://127.0.0.1 or http://localhost with its port");
        refusal(StatusCode::MISDIRECTED_REQUEST, refused)
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a host is this machine to itself.
fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], body.into()).into_response()
}

fn refusal(status: StatusCode, refused: Refused) -> Response {
    // A refusal is two strings.
    let body = serde_json::to_vec(&Reply::Refused(refused)).unwrap_or_default();
    (status, typed("application/json", body)).into_response()
}

/// Nothing from elsewhere, no script but the page's own; pictures have rules within.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for host in ["127.0.0.1:8421", "localhost", "localhost:1", "[::1]:8421", "127.0.0.2"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["", "example.org:8421", "192.168.0.1", "localhost.example.org"] {
            assert!(!is_here(host), "{host}");
        }
    }
}
