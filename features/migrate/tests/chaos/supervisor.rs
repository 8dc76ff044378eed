//! The operator that all stories share dies at the kill points of any of them, and is started again.

use std::convert::Infallible;
use std::time::Duration;

use testkit::{Cluster, Result};
use tokio::sync::{Mutex, RwLock};

use crate::stories::{DESTINATION, Shop};

/// How often the supervisor checks whether the operator runs.
const POLL: Duration = Duration::from_millis(20);
/// Stories in which the operator dies run beside each other. One with an operator of its own runs alone.
pub(crate) static OPERATOR: RwLock<()> = RwLock::const_new(());
/// The file of kill points: a change reads it and writes it again.
static KILL_FILE: Mutex<()> = Mutex::const_new(());

/// Tells a story in which the operator dies once at each of these points, and is started again.
///
/// Another story may let it die right after an effect of this one. Then the effect is not repeated, so its point
/// is not reached. Two of three points must be.
pub(crate) async fn with_crashes(
    shop: &Shop,
    points: &[&str],
    story: impl Future<Output = Result<()>>,
) -> Result<()> {
    let _beside = OPERATOR.read().await;
    let cluster = shop.cluster(DESTINATION);
    let chosen = cluster.operator().kill_file();
    {
        let _file = KILL_FILE.lock().await;
        points.iter().try_for_each(|point| chosen.abort(point))?;
    }
    tokio::select! {
        ended = story => ended?,
        failed = supervise(cluster) => match failed? {},
    }
    {
        let _file = KILL_FILE.lock().await;
        points.iter().try_for_each(|point| chosen.release(point))?;
    }
    let fired = chosen.fired()?;
    let has_fired = |point: &&&str| {
        let mut names = fired.iter().filter_map(|one| one.rsplit_once('#'));
        names.any(|(name, _)| name == **point)
    };
    let (hit, missed): (Vec<&str>, Vec<&str>) = points.iter().partition(has_fired);
    println!(
        "{} of {} kill points were hit; not these: {missed:?}",
        hit.len(),
        points.len()
    );
    assert!(hit.len() * 3 >= points.len() * 2, "not hit: {missed:?}");
    Ok(())
}

/// Starts the operator again whenever it has died. One story does it for all.
async fn supervise(cluster: &Cluster) -> Result<Infallible> {
    static SUPERVISOR: Mutex<()> = Mutex::const_new(());
    let _only = SUPERVISOR.lock().await;
    loop {
        if cluster.operator().exit_status().is_some() {
            cluster.operator().died().await?;
            let _file = KILL_FILE.lock().await;
            cluster.restart_operator(|_| {}).await?;
        }
        tokio::time::sleep(POLL).await;
    }
}
