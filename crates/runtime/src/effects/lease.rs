//! The lease that an effect names: `lease` among its params, a map with `pool`, `lease_id` and `lease_epoch`.
//!
//! It is read once, when the intent is dispatched, and travels with the effect; the claim compares it with what the pool says.

use mundi_model::{UniverseId, Value, WorldName, cbor, pool::LeaseId};
use mundi_store::{keyspace::effect_pending::EffectLease, protocol::shard_name};
use std::collections::BTreeMap;

/// Params without this are not decoded.
const MARK: &[u8] = b"lease";

/// The fields of a lease. A map under `lease` that has one of them is meant as a lease, and needs all of them: an effect never begins
/// unfenced because a part of its lease was left out.
const FIELDS: [&str; 3] = ["pool", "lease_id", "lease_epoch"];

/// The lease that params name, if they name one; or why it cannot be one.
pub(super) fn lease_of(universe: UniverseId, params: &[u8]) -> Result<Option<EffectLease>, String> {
    if !params.windows(MARK.len()).any(|window| window == MARK) {
        return Ok(None);
    }
    let Ok(Value::Map(mut params)) = cbor::decode::<Value>(params) else { return Ok(None) };
    match params.remove("lease") {
        Some(Value::Map(lease)) if FIELDS.iter().any(|field| lease.contains_key(*field)) => {
            read(universe, &lease).map(Some)
        }
        Some(Value::Text(text)) if text.parse::<LeaseId>().is_ok() => {
            Err(format!("`lease` is a text: it is a map with {}", FIELDS.join(", ")))
        }
        _ => Ok(None),
    }
}

fn read(universe: UniverseId, lease: &BTreeMap<String, Value>) -> Result<EffectLease, String> {
    let text = |name: &str| match lease.get(name) {
        Some(Value::Text(text)) => Ok(text.as_str()),
        _ => Err(format!("`lease.{name}` is not a text")),
    };
    let pool: WorldName = text("pool")?.parse().map_err(|_| "`lease.pool` is not the name of a pool".to_owned())?;
    let lease_id: LeaseId = text("lease_id")?.parse().map_err(|_| "`lease.lease_id` is not a lease id".to_owned())?;
    let lease_epoch = match lease.get("lease_epoch") {
        Some(Value::Integer(epoch)) => u64::try_from(*epoch).ok(),
        _ => None,
    };
    let lease_epoch = lease_epoch.ok_or("`lease.lease_epoch` is not a whole number from 0 on")?;
    let world = shard_name(&pool, lease_id.shard()).map_err(|error| error.to_string())?.world(universe);
    Ok(EffectLease { pool: pool.to_string(), world, lease_id, lease_epoch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Height;

    const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);

    fn params(lease: Value) -> Vec<u8> {
        cbor::encode(&Value::Map([("lease".to_owned(), lease), ("url".to_owned(), Value::Null)].into()))
    }

    fn lease(pool: &str, id: &str, epoch: Value) -> Value {
        let text = |text: &str| Value::Text(text.to_owned());
        let fields = [("pool", text(pool)), ("lease_id", text(id)), ("lease_epoch", epoch)];
        Value::Map(fields.map(|(name, value)| (name.to_owned(), value)).into())
    }

    #[test]
    fn a_lease_is_that_of_the_world_of_its_shard() {
        let id = LeaseId::new(3, Height::new(7));
        let found =
            lease_of(UNIVERSE, &params(lease("gpus", &id.to_string(), Value::Integer(5.into())))).unwrap().unwrap();
        let pool: WorldName = "gpus".parse().unwrap();
        assert_eq!(found.world, shard_name(&pool, 3).unwrap().world(UNIVERSE));
        assert_eq!((found.lease_id, found.lease_epoch), (id, 5));
        assert_eq!(found.name(), format!("gpus/{id}"));
    }

    #[test]
    fn what_is_no_lease_is_left_alone_and_a_malformed_one_is_refused() {
        let id = LeaseId::new(0, Height::new(7)).to_string();
        let five = || Value::Integer(5.into());
        assert_eq!(lease_of(UNIVERSE, &params(Value::Text("lease_epoch".into()))), Ok(None));
        assert_eq!(lease_of(UNIVERSE, b"lease_epoch"), Ok(None));
        assert_eq!(lease_of(UNIVERSE, &params(Value::Map([("months".to_owned(), five())].into()))), Ok(None));
        for bad in [lease("", &id, five()), lease("gpus", "l_7", five()), lease("gpus", &id, Value::Null)] {
            assert!(lease_of(UNIVERSE, &params(bad)).is_err());
        }
        assert!(lease_of(UNIVERSE, &params(Value::Text(id.clone()))).is_err());
        for left_out in FIELDS {
            let Value::Map(mut fields) = lease("gpus", &id, five()) else { panic!("a map") };
            fields.remove(left_out);
            let refused = lease_of(UNIVERSE, &params(Value::Map(fields))).unwrap_err();
            assert!(refused.contains(left_out), "without `{left_out}` it is no lease, and not unfenced: {refused}");
        }
    }
}
