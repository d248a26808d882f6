//! The web page at `/`: plain files, compiled in, so that nothing is needed to build or serve it.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

/// Path, type and content of each file.
const FILES: [(&str, &str, &str); 3] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
];

/// A route for each file.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |routes, (path, kind, content)| {
        routes.route(path, get(move || async move { ([(CONTENT_TYPE, kind)], content) }))
    })
}
