//! What an operator should know of the servers that hold what is parked.

use futures_util::future::join_all;

use super::Settings;
use super::masters::Masters;
use crate::finding::Finding;

/// Looks at every server anew.
pub(super) async fn of(parks: &Masters, rest: &Masters, settings: &Settings) -> Vec<Finding> {
    let (servers, others) = match (parks.all().await, rest.all().await) {
        (Ok(servers), Ok(others)) => (servers, others),
        (Err(error), _) | (_, Err(error)) => {
            return vec![Finding::bad("redis", error.to_string())];
        }
    };
    join_all(others.iter().map(|(_, link)| link.look())).await;
    let looks = servers.iter().map(|(name, link)| async move {
        match link.look().await {
            Ok(server) => server.findings(settings.durability, settings.min_replicas),
            Err(error) => vec![Finding::bad(name, error.to_string())],
        }
    });
    let mut findings = Vec::new();
    for ((name, _), found) in servers.iter().zip(join_all(looks).await) {
        findings.extend(found.into_iter().map(|finding| (name, finding)));
    }
    let mut findings = by_subject(findings);
    match parks {
        Masters::Cluster(cluster) => findings.push(cluster.finding().await),
        Masters::One(link) => {
            let is_node = link.live().await.is_ok_and(|live| live.server.cluster);
            findings.extend(is_node.then(|| {
                let detail = "this is a node of a cluster: write redis.url as redis-cluster://";
                Finding::bad("redis cluster", detail)
            }));
        }
    }
    findings
}

/// One finding for what is the same on every server; the others say where they were found.
fn by_subject(found: Vec<(&String, Finding)>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (name, finding) in &found {
        let alike = found.iter().filter(|(_, other)| other.subject == finding.subject);
        let same = alike.clone().all(|(_, other)| other == finding);
        let finding = match same {
            true => finding.clone(),
            false => Finding { detail: format!("{name}: {}", finding.detail), ..finding.clone() },
        };
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}
