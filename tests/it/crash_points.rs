//! xdelay dies, freezes beyond its lease, or is told to stop, exactly between two steps; then every
//! message is accounted for.
//!
//! A [cell](cell::Cell) is a point, an action, and how many replicas park where. `make matrix` runs
//! them all, `make test` one of each point: which ones turns with `TEST_SEED`, so that over the
//! points every action meets every arrangement.

pub mod cell;
mod load;
mod zombie;

use std::sync::LazyLock;

use xdelay::crash::Point;

use self::cell::Cell;

/// Which cells are run when not all are.
static TURN: LazyLock<usize> = LazyLock::new(|| {
    let given = std::env::var("TEST_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    (given.unwrap_or_else(|| fastrand::u64(..)) % Cell::OF_A_POINT as u64) as usize
});

async fn crash(point: Point) {
    for cell in cells_of(point) {
        let copies = cell.run().await;
        eprintln!("rabbitmq, {cell}: nothing lost, nothing early, {copies} copies");
    }
}

/// Those of a point that are to be run.
pub fn cells_of(point: Point) -> impl Iterator<Item = Cell> {
    let all = Cell::all_of(point);
    let row = Point::ALL.iter().position(|it| *it == point).expect("a point");
    // Four and nine have no divisor in common: nine points in a row meet all nine cells.
    let one = (*TURN + 4 * row) % Cell::OF_A_POINT;
    let whole = std::env::var("TEST_MATRIX").is_ok_and(|which| which == "all");
    all.into_iter().enumerate().filter_map(move |(place, cell)| {
        let chosen = whole || place == one;
        chosen.then(|| {
            eprintln!("{cell} (one of each point: TEST_SEED={})", *TURN);
            cell
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_capture_and_park() {
    crash(Point::CapturedUnparked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_a_park_and_its_answer() {
    crash(Point::ParkedUnanswered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_the_answer_of_a_park_and_its_proof() {
    crash(Point::ParkedUnproven).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_park_and_ack() {
    crash(Point::ParkedUnacked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_an_ack_and_its_note() {
    crash(Point::AckedUnnoted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_claim_and_publish() {
    crash(Point::ClaimedUnpublished).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_publish_and_confirm() {
    crash(Point::PublishedUnconfirmed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_confirm_and_settle() {
    crash(Point::ConfirmedUnsettled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_a_settle_and_its_answer() {
    crash(Point::SettledUnanswered).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_recovery_and_the_next_claim() {
    crash(Point::RecoveredUnannounced).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_a_refusal_and_its_postponement() {
    crash(Point::UnreleasedUnpostponed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_the_last_refusal_and_the_burial() {
    crash(Point::UnreleasedUnburied).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_opening_and_serving() {
    crash(Point::OpenedUnserved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn between_the_last_park_and_the_flush_of_a_stop() {
    crash(Point::StoppedUnflushed).await;
}
