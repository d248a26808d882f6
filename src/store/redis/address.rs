//! What `redis.url` names: a server, the sentinels that know one, or some nodes of a cluster.

use super::endpoint::Endpoint;
use super::sentinel::Sentinels;
use crate::store::Error;

const REDIS_PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

pub(super) enum Address {
    Server(Box<Endpoint>),
    Sentinels(Box<Sentinels>),
    /// Some of its nodes; the others are learnt from them.
    Cluster(Vec<Endpoint>),
}

impl Address {
    /// Takes a `redis.url` apart.
    ///
    /// # Errors
    /// When it is none that can be used. The text does not repeat it.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let nothing = || Error::Unavailable("redis.url cannot be used: it is no URL".into());
        let (scheme, rest) = url.split_once("://").ok_or_else(nothing)?;
        let Some((plain, kind)) = scheme.split_once('-') else {
            return Ok(Self::Server(Box::new(Endpoint::parse(url)?)));
        };
        let authority_ends = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(authority_ends);
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
            None => (String::new(), authority),
        };
        let several = |port: u16, tail: &str| {
            let one = |host: &str| {
                let port = if has_port(host) { String::new() } else { format!(":{port}") };
                Endpoint::parse(&format!("{plain}://{credentials}{host}{port}{tail}"))
            };
            hosts.split(',').filter(|host| !host.is_empty()).map(one).collect::<Result<Vec<_>, _>>()
        };
        match kind {
            "cluster" => Ok(Self::Cluster(several(REDIS_PORT, tail)?)),
            "sentinel" => {
                let name_ends = tail.find(['?', '#']).unwrap_or(tail.len());
                let (path, options) = tail.split_at(name_ends);
                let path = path.trim_matches('/');
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                let asked = several(SENTINEL_PORT, options)?;
                let master = several(REDIS_PORT, &format!("/{database}{options}"))?;
                let master = master.into_iter().next().ok_or_else(nothing)?;
                Ok(Self::Sentinels(Box::new(Sentinels::new(name, asked, master))))
            }
            _ => Ok(Self::Server(Box::new(Endpoint::parse(url)?))),
        }
    }
}

fn has_port(host: &str) -> bool {
    host.rfind(':') > host.rfind(']')
}

#[cfg(test)]
mod tests {
    use redis::ConnectionAddr;

    use super::*;

    fn places(servers: &[Endpoint]) -> Vec<(&str, u16)> {
        servers.iter().filter_map(Endpoint::host_and_port).collect()
    }

    #[test]
    fn a_cluster_is_known_by_some_of_its_nodes() {
        let Ok(Address::Cluster(nodes)) = Address::parse("redis-cluster://u:p%40@a,b:7,[::1]")
        else {
            panic!("a cluster");
        };
        assert_eq!(places(&nodes), [("a", 6379), ("b", 7), ("::1", 6379)]);
        for node in &nodes {
            assert_eq!(node.info().redis_settings().password(), Some("p@"));
        }
        let moved = nodes[0].elsewhere("c", 8);
        assert_eq!(moved.host_and_port(), Some(("c", 8)));
        assert_eq!(moved.info().redis_settings().password(), Some("p@"));
    }

    #[test]
    fn a_secured_cluster_is_secured_on_every_node() {
        let Ok(Address::Cluster(nodes)) = Address::parse("rediss-cluster://a,b/#insecure") else {
            panic!("a cluster");
        };
        let moved = nodes[1].elsewhere("c", 8);
        assert!(matches!(
            moved.info().addr(),
            ConnectionAddr::TcpTls { insecure: true, port: 8, .. }
        ));
    }

    #[test]
    fn sentinels_are_asked_for_the_master_by_its_name() {
        let Ok(Address::Sentinels(sentinels)) =
            Address::parse("redis-sentinel://:pw@a,b:7/mymaster/2")
        else {
            panic!("sentinels");
        };
        assert_eq!(sentinels.name(), "mymaster");
        assert_eq!(places(&sentinels.asked()), [("a", 26379), ("b", 7)]);
        assert_eq!(sentinels.master().info().redis_settings().db(), 2);
        assert_eq!(sentinels.master().info().redis_settings().password(), Some("pw"));
    }

    #[test]
    fn one_server_is_named_as_ever() {
        assert!(matches!(Address::parse("redis://h:1/2"), Ok(Address::Server(_))));
        assert!(matches!(Address::parse("unix:///run/redis-cluster.sock"), Ok(Address::Server(_))));
        assert!(Address::parse("h").is_err());
    }
}
