//! Layers, checks, and that every setting reaches the node.

use super::{show::without_password, *};
use crate::node::AdmissionPolicy;
use mundi_kernel::manifest::Retry;
use mundi_model::Coded;
use mundi_runtime::{
    effects::attempts::AttemptBounds,
    shell::{self, Policy},
    worker::SegmentPolicy,
    world::{CycleBudget, SnapshotPolicy},
};
use mundi_store::{
    objects::RequestPolicy,
    protocol::{ExportPolicy, KindCap},
    reachability::SweepConfig,
    values::RateTerms,
};

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mundi.toml");
    std::fs::write(&file, "[node]\nrunners = 1\nworker = 7\n[api]\nbind = \"127.0.0.1:1\"\nbody_bytes_max = 5")
        .unwrap();
    let vars = env(&[("MUNDI_NODE__RUNNERS", "2"), ("MUNDI_API__BIND", "127.0.0.1:2"), ("MUNDI_SEEDS", "not ours")]);
    let config = Config::load(Some(&file), vars, &[("api.bind", "127.0.0.1:3".into())]).unwrap();
    assert_eq!((config.node.runners, config.node.worker, config.api.body_bytes_max), (2, Some(7), 5));
    assert_eq!(config.api.bind.port(), 3);
    assert_eq!(config.api.connections_max, ApiConfig::default().connections_max);
}

#[test]
fn an_unknown_key_is_an_error_that_says_where_it_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mundi.toml");
    std::fs::write(&file, "[node]\nrunnerz = 1\n").unwrap();
    let error = Config::load(Some(&file), [], &[]).unwrap_err().to_string();
    assert!(error.contains("mundi.toml") && error.contains("runnerz"), "{error}");
    let error = Config::load(None, env(&[("MUNDI_API__BINT", "x")]), &[]).unwrap_err().to_string();
    assert!(error.contains("MUNDI_API__BINT") && error.contains("bint"), "{error}");
    assert!(Config::load(None, [], &[("api.nope", 1.into())]).is_err());
}

#[test]
fn a_value_that_looks_like_a_number_can_be_a_text() {
    let config = Config::load(None, env(&[("MUNDI_LLM__API_KEY", "123")]), &[]).unwrap();
    assert_eq!(config.llm.api_key.as_deref(), Some("123"));
}

#[test]
fn secrets_are_masked_and_what_is_shown_can_be_loaded() {
    let config = Config::load(None, env(&[("MUNDI_LLM__API_KEY", "hush")]), &[]).unwrap();
    let shown = config.show().unwrap();
    assert!(!shown.contains("hush") && shown.contains("********"));
    let again: Config = toml::from_str(&shown).unwrap();
    assert_eq!(again.api, config.api);
}

#[test]
fn the_passwords_of_engine_and_objects_are_masked() {
    let vars = env(&[
        ("MUNDI_ENGINE__URL", "postgres://u:hush@h/db?sslmode=require"),
        ("MUNDI_OBJECTS__URL", "s3://bucket"),
        ("MUNDI_OBJECTS__SETTINGS__AWS_SECRET_ACCESS_KEY", "hush"),
    ]);
    let shown = Config::load(None, vars, &[]).unwrap().show().unwrap();
    assert!(!shown.contains("hush") && shown.contains("postgres://u:********@h/db?sslmode=require"), "{shown}");
    assert_eq!(without_password("postgres://u@h/d"), "postgres://u@h/d");
    assert_eq!(without_password("postgres://h"), "postgres://h");
}

#[test]
fn processes_that_share_a_database_share_their_objects() {
    let alone = env(&[("MUNDI_ENGINE__URL", "postgres://h/db")]);
    let refused = Config::load(None, alone, &[]).unwrap_err().to_string();
    assert!(refused.contains("objects.url"), "{refused}");
    assert!(Config::load(None, env(&[("MUNDI_ENGINE__URL", "file:///a")]), &[]).is_ok());
}

#[test]
fn snapshots_and_limits_of_effects_reach_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mundi.toml");
    let text = "[worlds]\nsnapshot_age_ms = 5\n[effects]\ncalls_max = 9\n\
                attempts_at_a_time_max = 11\nattempts_per_second_max = 12\n[effects.kinds.\"http.request\"]\n\
                calls_max = 2\nuniverse_calls_max = 3\nuniverse_per_second = 7\n";
    std::fs::write(&file, text).unwrap();
    let config = Config::load(Some(&file), [], &[]).unwrap();
    let again: Config = toml::from_str(&config.show().unwrap()).unwrap();
    assert_eq!(again.effects, config.effects);
    let node = config.node().unwrap();
    assert_eq!(node.snapshots, SnapshotPolicy { age_ns: 5_000_000, ..SnapshotPolicy::default() });
    let rate = Some(RateTerms { per_second: 7, burst: 7 });
    let caps = [("http.request".to_owned(), KindCap { calls_max: Some(3), rate })].into();
    assert_eq!((node.adapters.calls_max, node.adapters.universe_caps), (9, caps));
    assert_eq!(node.adapters.kind_calls_max, [("http.request".to_owned(), 2)].into());
    assert_eq!(node.attempts, AttemptBounds { at_a_time_max: 11, per_second_max: 12 });
    let nothing = Config::default().node().unwrap();
    assert_eq!((nothing.snapshots, nothing.adapters.calls_max), (SnapshotPolicy::default(), 1_024));
}

#[test]
fn who_may_send_to_a_universe_reaches_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mundi.toml");
    std::fs::write(&file, "[universes.billing]\naccepts_from = [\"shop\"]\n").unwrap();
    let config = Config::load(Some(&file), [], &[]).unwrap();
    let again: Config = toml::from_str(&config.show().unwrap()).unwrap();
    assert_eq!(again.universes, config.universes);
    let rules = &config.node().unwrap().universe_rules["billing"];
    assert!(rules.accepts_from.contains("shop"));
    assert!(Config::default().node().unwrap().universe_rules.is_empty(), "nobody, unless it is said");
    for (digits, is_key) in [("0".repeat(64), true), ("0".repeat(63), false), ("x".repeat(64), false)] {
        let section = format!("{{ adapter_keys = {{ mail = \"{digits}\" }} }}");
        let loaded = Config::load(None, env(&[("MUNDI_UNIVERSES__BILLING", &section)]), &[]);
        assert_eq!(loaded.is_ok(), is_key, "{digits}");
    }
}

#[test]
fn the_keys_of_the_sweep_reach_the_node_and_a_grace_that_nobody_can_rely_on_is_refused() {
    let keys = [("INTERVAL_MS", "7"), ("GRACE_MS", "3600000"), ("KEYS_PER_SECOND_MAX", "11")];
    let all = keys.into_iter().chain([("REMOVALS_PER_SECOND_MAX", "13")]);
    let vars: Vec<_> = all.map(|(key, value)| (format!("MUNDI_SWEEP__{key}"), value.to_owned())).collect();
    let node = Config::load(None, vars.clone(), &[]).unwrap().node().unwrap();
    let SweepConfig { grace, keys_per_second_max, removals_per_second_max, .. } = node.sweep;
    assert_eq!((grace, node.sweep_interval), (Duration::from_secs(3_600), Some(Duration::from_millis(7))));
    assert_eq!((keys_per_second_max, removals_per_second_max), (11, 13));
    let objects = env(&[("MUNDI_OBJECTS__TIMEOUT_MS", "9"), ("MUNDI_OBJECTS__ATTEMPTS_MAX", "2")]);
    let RequestPolicy { timeout, attempts_max, .. } = Config::load(None, objects, &[]).unwrap().node().unwrap().objects;
    assert_eq!((timeout, attempts_max), (Duration::from_millis(9), 2));
    assert!(Config::load(None, env(&[("MUNDI_OBJECTS__ATTEMPTS_MAX", "0")]), &[]).is_err());
    let off = vars.into_iter().chain(env(&[("MUNDI_SWEEP__ENABLED", "false")]));
    assert_eq!(Config::load(None, off, &[]).unwrap().node().unwrap().sweep_interval, None);
    for (key, value) in [("MUNDI_SWEEP__GRACE_MS", "3599999"), ("MUNDI_SWEEP__INTERVAL_MS", "0")] {
        let refused = Config::load(None, env(&[(key, value)]), &[]).unwrap_err().to_string();
        assert!(refused.contains("sweep."), "{refused}");
    }
}

#[test]
fn a_limit_that_lets_nothing_through_is_refused() {
    for wrong in ["calls_max = 0", "universe_calls_max = 0", "universe_per_second = 0", "universe_burst = 1"] {
        let kinds = format!("{{ \"llm.chat\" = {{ {wrong} }} }}");
        let refused = Config::load(None, env(&[("MUNDI_EFFECTS__KINDS", &kinds)]), &[]).unwrap_err().to_string();
        assert!(refused.contains("llm.chat"), "{wrong}: {refused}");
    }
    assert!(Config::load(None, env(&[("MUNDI_EFFECTS__CALLS_MAX", "0")]), &[]).is_err());
}

#[test]
fn an_address_is_told_to_others_only_if_they_can_use_it() {
    let told = |bind: &str, advertise: Option<&str>| {
        let fleet = [("MUNDI_ENGINE__URL", "postgres://h/db"), ("MUNDI_OBJECTS__URL", "s3://bucket")];
        let own = advertise.map(|address| ("MUNDI_API__ADVERTISE", address));
        let vars: Vec<_> = fleet.into_iter().chain([("MUNDI_API__BIND", bind)]).chain(own).collect();
        Config::load(None, env(&vars), &[]).map(|config| config.advertised(config.api.bind))
    };
    assert_eq!(told("10.0.0.7:7600", None).unwrap().as_deref(), Some("http://10.0.0.7:7600"));
    assert_eq!(told("0.0.0.0:7600", None).unwrap(), None, "they need to be told");
    assert_eq!(told("127.0.0.1:7600", None).unwrap(), None, "it would be their own");
    let behind = told("0.0.0.0:7600", Some("https://one.fleet:443/mundi")).unwrap();
    assert_eq!(behind.as_deref(), Some("https://one.fleet/mundi"));
    assert_eq!(told("127.0.0.1:7", Some("http://127.0.0.1:0")).unwrap().as_deref(), Some("http://127.0.0.1:7/"));
    for wrong in ["one.fleet:7600", "ftp://one.fleet", "http://"] {
        assert!(told("0.0.0.0:7600", Some(wrong)).is_err(), "{wrong}");
    }
    let alone = env(&[("MUNDI_API__ADVERTISE", "http://one.fleet")]);
    let alone = Config::load(None, alone, &[]).unwrap();
    assert_eq!(alone.advertised(alone.api.bind), None, "a folder belongs to one process");
}

#[test]
fn a_server_that_others_reach_needs_tokens() {
    let open = |bind: &str| Config::load(None, env(&[("MUNDI_API__BIND", bind)]), &[]).unwrap();
    let open = |bind: &str| {
        let config = open(bind);
        config.access(config.api.bind)
    };
    assert!(
        open("0.0.0.0:1").tokens_required && !open("127.0.0.1:1").tokens_required && !open("[::1]:1").tokens_required
    );
    let vars = env(&[("MUNDI_API__BIND", "0.0.0.0:1"), ("MUNDI_API__TOKENS_REQUIRED", "false")]);
    assert!(Config::load(None, vars, &[]).is_err());
}

fn load(text: &str) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mundi.toml");
    std::fs::write(&file, text).unwrap();
    Config::load(Some(&file), [], &[])
}

#[test]
fn every_policy_reaches_the_node() {
    let text = r#"
        [objects]
        inline_bytes_max = 7
        [worlds]
        inbox_grace_ms = 2000
        dedupe_window_ms = 70000
        snapshot_records = 16
        snapshot_bytes = 17
        snapshot_age_ms = 18
        deaths_max = 19
        [worlds.cycle]
        items_max = 2
        steps_max = 3
        effects_max = 4
        wall_ms_max = 5
        [worlds.segments]
        enabled = false
        margin_records = 6
        records_min = 7
        records_max = 8
        [effects.retry]
        attempts_max = 20
        backoff_ms = 21
        backoff_ms_max = 22
        [api]
        inbox_age_ms_max = 1500
        memory_bytes_max = 99
        [node]
        replay_log = "/tmp/replay.ndjson"
        replay_log_bytes_max = 5000
        [shell]
        claim_ttl_ms = 900
        requeue_attempts_max = 10
        retry_budget_max = 11
        backoff_ms = 12
        backoff_ms_max = 15
        batch_max = 13
        idle_ms_max = 14
        on_non_retryable = "stop"
    "#;
    let config = load(text).unwrap();
    let node = config.node().unwrap();
    let cycle = CycleBudget { items_max: 2, steps_max: 3, effects_max: 4, wall_ms_max: 5 };
    let records = ExportPolicy { margin: 6, records_min: 7, records_max: 8 };
    let segments = SegmentPolicy { enabled: false, records, ..SegmentPolicy::default() };
    let shell = Policy {
        claim_ttl_ms: 900,
        requeue_attempts_max: 10,
        retry_budget_max: 11,
        backoff_ms: 12,
        backoff_ms_max: 15,
        batch_max: 13,
        idle_ms_max: 14,
        on_non_retryable: shell::OnNonRetryable::Stop,
    };
    assert_eq!((node.cycle, node.segments, node.shell), (cycle, segments, shell));
    assert_eq!((node.content.inline_bytes_max, node.inbox_grace), (7, Duration::from_secs(2)));
    assert_eq!((node.dedupe_window, node.deaths_max), (Duration::from_secs(70), 19));
    assert_eq!(node.snapshots, SnapshotPolicy { records: 16, bytes: 17, age_ns: 18_000_000 });
    assert_eq!(node.retry, Retry { attempts_max: 20, backoff_ms: 21, backoff_ms_max: 22 });
    let admission = AdmissionPolicy { inbox_age_max: Some(Duration::from_millis(1_500)), memory_bytes_max: Some(99) };
    assert_eq!(node.admission, admission);
    assert_eq!((node.replay_log, node.replay_log_bytes_max), (Some("/tmp/replay.ndjson".into()), 5_000));
    let again: Config = toml::from_str(&config.show().unwrap()).unwrap();
    assert_eq!((again.worlds, again.shell, again.objects), (config.worlds, config.shell, config.objects));
}

#[test]
fn what_is_not_configured_is_as_the_runtime_has_it() {
    let node = Config::default().node().unwrap();
    assert_eq!((node.cycle, node.segments), (CycleBudget::default(), SegmentPolicy::default()));
    assert_eq!(node.shell, Policy::default());
    let off = load("[api]\ninbox_age_ms_max = 0\nmemory_bytes_max = 0\n").unwrap().node().unwrap();
    assert_eq!(off.admission, AdmissionPolicy::default());
}

#[test]
fn a_number_out_of_its_range_is_refused_with_what_is_allowed() {
    for (section, wrong, allowed) in [
        ("worlds", "snapshot_records = 0", "1 to"),
        ("worlds", "snapshot_bytes = 0", "1 to"),
        ("worlds", "snapshot_age_ms = 0", "1 to"),
        ("worlds", "inbox_grace_ms = 999", "1000 to"),
        ("worlds", "dedupe_window_ms = 59999", "60000 to 2592000000"),
        ("worlds", "dedupe_window_ms = 2592000001", "60000 to 2592000000"),
        ("worlds.cycle", "items_max = 0", "1 to 4096"),
        ("worlds.cycle", "items_max = 4097", "1 to 4096"),
        ("worlds.cycle", "steps_max = 0", "1 to 1000000"),
        ("worlds.cycle", "effects_max = 8193", "1 to 8192"),
        ("worlds.cycle", "wall_ms_max = 0", "1 to 10000"),
        ("worlds.segments", "records_min = 0", "1 to 65536"),
        ("worlds.segments", "records_max = 65537", "1 to 65536"),
        ("shell", "claim_ttl_ms = 99", "100 to 600000"),
        ("shell", "requeue_attempts_max = 0", "1 to 100"),
        ("shell", "retry_budget_max = 0", "1 to 1000"),
        ("shell", "backoff_ms = 0", "1 to 60000"),
        ("shell", "backoff_ms_max = 3600001", "1 to 3600000"),
        ("shell", "batch_max = 257", "1 to 256"),
        ("shell", "idle_ms_max = 9", "10 to 600000"),
        ("objects", "inline_bytes_max = 16385", "0 to 16384"),
        ("effects.retry", "attempts_max = 0", "1 to 100"),
        ("effects.retry", "attempts_max = 101", "1 to 100"),
        ("effects.retry", "backoff_ms = 9", "10 to 86400000"),
        ("effects.retry", "backoff_ms_max = 86400001", "10 to 86400000"),
        ("api", "inbox_age_ms_max = 99", "100 to"),
        ("node", "replay_log_bytes_max = 4095", "4096 to"),
        ("node", "runners = 0", "1 to 65536"),
        ("node", "lease_ttl_ms = 999", "1000 to 3600000"),
    ] {
        let refused = load(&format!("[{section}]\n{wrong}\n")).unwrap_err();
        let (text, key) = (refused.to_string(), wrong.split(' ').next().unwrap());
        assert_eq!(refused.code(), mundi_model::Code::ConfigInvalid);
        assert!(text.contains(&format!("{section}.{key}")) && text.contains(allowed), "{wrong}: {text}");
    }
    let refused = load("[shell]\non_non_retryable = \"panic\"\n").unwrap_err().to_string();
    assert!(refused.contains("dead_letter") && refused.contains("escalate"), "{refused}");
}
