//! Weaknesses that a configuration leaves open: the checklist of `docs/operating/security.md`, as far as a process can check it. Each finding names the
//! cost of the mistake; none is an error, because each may be intended.

use crate::{
    config::{Config, QuotasSection, UniverseSection},
    quotas::QuotaLimits,
    signs::Sign,
};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The checks. The page has a line for each.
pub const CHECKS: [&str; 12] = [
    "tls",
    "tokens",
    "quotas",
    "memory bound",
    "inbox bound",
    "private hosts",
    "commands",
    "model key",
    "secrets",
    "data folder",
    "user",
    "limits",
];

/// Looks at a configuration, and at the file that it was read from, if there was one.
pub fn look(config: &Config, file: Option<&Path>) -> Vec<Sign> {
    let found = [
        tls(config),
        tokens(config),
        quotas(config),
        memory_bound(config),
        inbox_bound(config),
        private_hosts(config),
        commands(config),
        model_key(config),
        secrets(config, file),
        data_folder(config),
        user(config),
        limits(config),
    ];
    let one = |(check, found): (&'static str, Option<(String, &'static str)>)| match found {
        Some((found, advice)) => Sign::look(check, found, advice),
        None => Sign::good(check, "as it should be".to_owned()),
    };
    CHECKS.into_iter().zip(found).map(one).collect()
}

/// A finding, and the advice.
type Finding = Option<(String, &'static str)>;

fn addresses(config: &Config) -> impl Iterator<Item = SocketAddr> {
    [config.api.bind].into_iter().chain(config.api.health_bind)
}

/// The address at which others reach the process, if they do.
fn open_address(config: &Config) -> Option<SocketAddr> {
    addresses(config).find(|address| !address.ip().is_loopback())
}

fn tls(config: &Config) -> Finding {
    let open = open_address(config).filter(|_| config.api.tls.certificates.is_none())?;
    Some((
        format!("{open} is served without TLS"),
        "set api.tls, or let a proxy on this machine speak TLS and bind loopback",
    ))
}

fn tokens(config: &Config) -> Finding {
    let names = &config.api.hosts_allowed;
    if names.is_empty() || addresses(config).all(|address| config.access(address).tokens_required) {
        return None;
    }
    let found = format!("whoever reaches {} by way of this machine needs no token", names.join(", "));
    Some((found, "set api.tokens_required = true: a name in api.hosts_allowed is for others"))
}

fn quotas(config: &Config) -> Finding {
    let QuotasSection { per_universe, .. } = &config.quotas;
    if *per_universe != QuotaLimits::default() {
        return None;
    }
    open_address(config)?;
    let has_quotas = |section: &UniverseSection| section.quotas != QuotaLimits::default();
    let named: Vec<_> = config.universes.iter().filter(|(_, section)| has_quotas(section)).collect();
    let found = match &named[..] {
        [] => "no universe has quotas by the configuration".to_owned(),
        named => {
            let names = named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
            format!("no universe but {names} has quotas by the configuration")
        }
    };
    let advice = "set [quotas.per_universe] and [quotas.per_token], or `mundi universe quotas set` for each universe";
    Some((found, advice))
}

fn memory_bound(config: &Config) -> Finding {
    let advice = "leave api.memory_bytes_max out: requests are refused before the system ends the process";
    (config.api.memory_bytes_max == Some(0)).then(|| ("work is taken whatever it costs".to_owned(), advice))
}

fn inbox_bound(config: &Config) -> Finding {
    let advice = "set api.inbox_age_ms_max: senders of a world that does not keep up are told to wait";
    (config.api.inbox_age_ms_max == 0).then(|| ("inboxes grow until they are full".to_owned(), advice))
}

fn private_hosts(config: &Config) -> Finding {
    let hosts = &config.http.private_hosts_allowed;
    if hosts.is_empty() {
        return None;
    }
    let hosts = hosts.iter().cloned().collect::<Vec<_>>().join(", ");
    let advice =
        "programs of every universe reach them: leave http.private_hosts_allowed empty where tenants bring programs";
    Some((format!("effects may reach {hosts}"), advice))
}

fn commands(config: &Config) -> Finding {
    let names = config.process.commands.keys().cloned().collect::<Vec<_>>().join(", ");
    let advice =
        "programs of every universe run them, as the user of the server: list none where tenants bring programs";
    (!names.is_empty()).then(|| (format!("programs may run {names}"), advice))
}

fn model_key(config: &Config) -> Finding {
    config.llm.api_key.as_ref().filter(|_| config.llm.base_url.is_some())?;
    open_address(config)?;
    let advice =
        "programs of every universe use it, at its owner's expense: bound it there, or set effects_per_second_max";
    Some(("all universes share the key of [llm]".to_owned(), advice))
}

fn secrets(config: &Config, file: Option<&Path>) -> Finding {
    let has_password = |url: &String| {
        url.split_once("://").is_some_and(|(_, rest)| {
            rest.split('/')
                .next()
                .and_then(|authority| authority.rsplit_once('@'))
                .is_some_and(|(user, _)| user.contains(':'))
        })
    };
    let has_secret = config.llm.api_key.is_some()
        || !config.objects.settings.is_empty()
        || config.engine.url.as_ref().is_some_and(has_password);
    let file = file.filter(|file| has_secret && others_read(file))?;
    let advice = "chmod 600, or give secrets by the environment (MUNDI_LLM__API_KEY, AWS_*, MUNDI_ENGINE__URL)";
    Some((format!("{} has secrets and may be read by others", file.display()), advice))
}

fn data_folder(config: &Config) -> Finding {
    let folder = config.data.folder.canonicalize().ok().filter(|folder| others_enter(folder))?;
    Some((
        format!("{} is open to other users of this machine", folder.display()),
        "chmod 700: it holds all events and all state",
    ))
}

/// The server writes its folder as the user that it runs as; whoever asks here may be another one.
fn user(config: &Config) -> Finding {
    let owner = fs::metadata(&config.data.folder).ok()?.uid();
    let advice = "run the server as a user of its own: commands of [process] and native programs have its rights";
    (owner == 0).then(|| (format!("{} belongs to root", config.data.folder.display()), advice))
}

/// Bounds that are there and are so large that they bound nothing.
fn limits(config: &Config) -> Finding {
    let api = &config.api;
    let whole = api.connections_max;
    let beyond = [
        ("api.connections_per_address_max", api.connections_per_address_max.unwrap_or(1), whole),
        ("api.connections_per_token_max", api.connections_per_token_max.unwrap_or(1), whole),
        ("api.bodies_per_universe_bytes_max", api.bodies_per_universe_bytes_max, api.bodies_bytes_max),
        ("api.bodies_per_token_bytes_max", api.bodies_per_token_bytes_max, api.bodies_bytes_max),
        ("api.answers_per_universe_bytes_max", api.answers_per_universe_bytes_max, api.answers_bytes_max),
        ("api.answers_per_token_bytes_max", api.answers_per_token_bytes_max, api.answers_bytes_max),
    ];
    let (key, ..) = beyond.into_iter().find(|(_, part, whole)| part >= whole && *whole > 1)?;
    open_address(config)?;
    Some((format!("{key} lets one client have everything"), "set it below the bound of the whole process"))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).map_or(0, |found| found.permissions().mode())
}

fn others_read(file: &Path) -> bool {
    mode(file) & 0o004 != 0 && reachable(file)
}

fn others_enter(folder: &Path) -> bool {
    mode(folder) & 0o005 != 0 && reachable(folder)
}

/// Whether others may enter all folders that a path lies in.
fn reachable(path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    path.ancestors().skip(1).all(|folder| mode(folder) & 0o001 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signs::Verdict;
    use mundi_model::limits;
    use std::{collections::BTreeMap, fmt::Write};
    use toml::Value;

    fn load(file: &Path, text: &str) -> Config {
        fs::write(file, text).unwrap();
        Config::load(Some(file), [], &[]).unwrap()
    }

    /// The checks that find something, of a configuration in a folder that nobody else can enter.
    fn found(text: &str) -> Vec<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mundi.toml");
        let text = format!("[data]\nfolder = {:?}\n{text}", folder.path().join("data"));
        let signs = look(&load(&file, &text), Some(&file));
        assert!(signs.iter().map(|sign| sign.check).eq(CHECKS));
        signs.iter().filter(|sign| sign.verdict == Verdict::Look).map(|sign| sign.check).collect()
    }

    const OPEN: &str = "bind = \"0.0.0.0:7600\"\n";
    const QUOTAS: &str = "[quotas.per_universe]\nworlds_max = 10\n";
    const TLS: &str = "[api.tls]\ncertificates = \"a.pem\"\nkey = \"b.pem\"\n";

    #[test]
    fn what_nobody_changed_leaves_nothing_open() {
        assert_eq!(found(""), [""; 0]);
        assert_eq!(found(&format!("[api]\n{OPEN}{TLS}{QUOTAS}")), [""; 0]);
    }

    #[test]
    fn every_check_finds_what_it_is_for() {
        assert_eq!(found(&format!("[api]\n{OPEN}{QUOTAS}")), ["tls"]);
        assert_eq!(found("[api]\nhosts_allowed = [\"box.lan\"]\n"), ["tokens"]);
        assert_eq!(found("[api]\nhosts_allowed = [\"box.lan\"]\ntokens_required = true\n"), [""; 0]);
        assert_eq!(found(&format!("[api]\n{OPEN}{TLS}")), ["quotas"]);
        let named = "[universes.shop.quotas]\nworlds_max = 10\n";
        assert_eq!(found(&format!("[api]\n{OPEN}{TLS}{named}")), ["quotas"], "the others have none");
        assert_eq!(found("[api]\nmemory_bytes_max = 0\n"), ["memory bound"]);
        assert_eq!(found("[api]\ninbox_age_ms_max = 0\n"), ["inbox bound"]);
        assert_eq!(found("[http]\nprivate_hosts_allowed = [\"db.lan\"]\n"), ["private hosts"]);
        let command = "[process.commands.thumbnail]\nprogram = \"/usr/bin/convert\"\nfolder = \"/tmp\"\n";
        assert_eq!(found(command), ["commands"]);
        let llm = "[llm]\nbase_url = \"https://api.example.com/v1\"\napi_key = \"secret\"\nmodel = \"small\"\n";
        assert!(found(&format!("[api]\n{OPEN}{TLS}{QUOTAS}{llm}")).contains(&"model key"));
        assert!(!found(llm).contains(&"model key"), "nobody else reaches it");
        let large = format!("[api]\n{OPEN}connections_per_address_max = 4096\n{TLS}{QUOTAS}");
        assert_eq!(found(&large), ["limits"]);
    }

    #[test]
    fn what_others_may_read_is_told_where_they_can_reach_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("mundi.toml"), folder.path().join("data"));
        fs::create_dir(&data).unwrap();
        let config = load(&file, &format!("[data]\nfolder = {data:?}\n[llm]\napi_key = \"secret\"\n"));
        let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        // The tests may run as any user.
        let is_root = user(&config).is_some();
        assert_eq!(is_root, fs::metadata(&data).unwrap().uid() == 0);
        let looked = || {
            let signs = look(&config, Some(&file)).into_iter().filter(|sign| sign.verdict == Verdict::Look);
            signs.map(|sign| sign.check).filter(|check| *check != "user").collect::<Vec<_>>()
        };
        chmod(&file, 0o644);
        chmod(&data, 0o755);
        chmod(folder.path(), 0o700);
        assert_eq!(looked(), [""; 0], "the folder around them is closed");
        chmod(folder.path(), 0o755);
        assert_eq!(looked(), ["secrets", "data folder"]);
        chmod(&file, 0o600);
        chmod(&data, 0o700);
        assert_eq!(looked(), [""; 0]);
    }

    fn page() -> String {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/security.md")).unwrap()
    }

    /// The rows of the tables of limits: `| `name` | default | … |`.
    fn rows(page: &str) -> BTreeMap<String, String> {
        let row = |line: &str| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
            Some((name.to_owned(), cells.next()?.replace(',', "")))
        };
        page.lines().filter_map(row).collect()
    }

    fn numbers(prefix: &str, value: &Value, into: &mut BTreeMap<String, String>) {
        match value {
            Value::Table(table) => {
                for (key, value) in table {
                    numbers(&format!("{prefix}.{key}"), value, into);
                }
            }
            Value::Integer(number) => {
                into.insert(prefix.to_owned(), number.to_string());
            }
            _ => {}
        }
    }

    macro_rules! bounds {
        ($($name:ident),* $(,)?) => { [$((stringify!($name), limits::$name.to_string())),*] };
    }

    #[test]
    fn the_page_tells_every_limit_with_the_default_that_it_has() {
        let (page, config) = (page(), Value::try_from(Config::default()).unwrap());
        let mut expected = BTreeMap::new();
        for section in ["api", "effects", "process", "programs", "quotas"] {
            numbers(section, &config[section], &mut expected);
        }
        for key in ["node.runners", "node.worlds_max"] {
            numbers(key, &config["node"][key.trim_start_matches("node.")], &mut expected);
        }
        numbers("worlds.deaths_max", &config["worlds"]["deaths_max"], &mut expected);
        let quotas = crate::quotas::Quota::ALL.iter().map(|quota| (quota.as_str().to_owned(), "none".to_owned()));
        expected.extend(quotas);
        let half = (Config::default().api.connections_max / 2).to_string();
        for key in ["api.connections_per_address_max", "api.connections_per_token_max"] {
            expected.insert(key.to_owned(), half.clone());
        }
        let bounds = bounds![
            AGENT_ANSWER_BYTES_MAX,
            AGENT_CONVERSATION_BYTES_MAX,
            AGENT_ROUNDS_MAX,
            AGENT_TOOLS_MAX,
            BLOB_BYTES_MAX,
            BUNDLE_BYTES_MAX,
            BUNDLE_EXPANSION_MAX,
            CELL_VALUE_BYTES_MAX,
            CHILD_CALLS_MAX,
            CHILD_RESULT_BYTES_MAX,
            CHECKS_WAITING_MAX,
            CHILDREN_ACTIVE_MAX,
            CHILDREN_ENDED_MAX,
            CLAIMS_MAX,
            COMPONENT_BYTES_MAX,
            COMPONENT_FUNCTION_BLOCKS_MAX,
            COMPONENT_FUNCTION_LOOPS_MAX,
            COMPONENT_FUNCTIONS_MAX,
            COMPONENT_WEIGHT_MAX,
            COMPONENTS_QUEUED_BYTES_MAX,
            COMPONENTS_QUEUED_MAX,
            COMPONENTS_QUEUED_OF_UNIVERSE_MAX,
            EFFECT_ATTEMPTS_MAX,
            EFFECT_BACKOFF_MS_MIN,
            EFFECT_TIMEOUT_MS_MAX,
            INBOX_BATCH_ITEMS_MAX,
            INBOX_BYTES_MAX_DEFAULT,
            INBOX_ITEM_BYTES_MAX,
            INBOX_ITEMS_MAX_DEFAULT,
            LIST_ITEMS_MAX,
            MANIFEST_BYTES_MAX,
            OPEN_INTENTS_MAX,
            PAYLOAD_BYTES_MAX,
            PAYLOAD_INLINE_BYTES_MAX,
            QUERY_FAILURES_MAX,
            REPLAYS_AT_ONCE_MAX,
            REPLAYS_OF_UNIVERSE_MAX,
            REPLAYS_WAITING_OF_UNIVERSE_MAX,
            SCHEMA_DEPTH_MAX,
            SCHEMA_EXPANSION_MAX,
            SCHEMA_NODES_MAX,
            SCHEMA_PATTERN_WEIGHT_MAX,
            SCHEMA_PATTERNS_WEIGHT_MAX,
            SCHEMA_WORK_IN_PLACE_MAX,
            SCHEMA_WORK_MAX,
            SQL_AT_ONCE_MAX,
            SQL_BYTES_MAX,
            SQL_MEMORY_BYTES_MAX,
            SQL_OF_UNIVERSE_MAX,
            SQL_ROWS_MAX,
            SQL_STREAMED_BYTES_MAX,
            SQL_STREAMED_ROWS_MAX,
            SQL_TIME_MS_MAX,
            SQL_WAITING_OF_UNIVERSE_MAX,
            STEP_BYTES_MAX,
            STEP_CALLS_MAX,
            STEP_OUTPUTS_MAX,
            STEPS_LONG_MAX,
            STEPS_LONG_OF_UNIVERSE_MAX,
            STEPS_WAITING_LONG_MAX,
            STEPS_WAITING_MAX,
            TIMERS_MAX,
            VALUE_DEPTH_MAX,
            WASM_FUEL_MAX,
            WASM_MEMORY_BYTES_MAX,
            WASM_STACK_BYTES_MAX,
            WASM_TABLE_ELEMENTS_MAX,
            WORLD_FAILURES_MAX,
        ];
        expected.extend(bounds.map(|(name, value)| (name.to_owned(), value)));
        let (rows, mut wrong) = (rows(&page), String::new());
        for (name, value) in &expected {
            if rows.get(name) != Some(value) {
                writeln!(wrong, "| `{name}` | {value} | (the page has {:?})", rows.get(name)).unwrap();
            }
        }
        let unknown = rows.keys().filter(|name| !expected.contains_key(*name) && !CHECKS.contains(&name.as_str()));
        unknown.for_each(|name| writeln!(wrong, "`{name}` is in the page and is no limit").unwrap());
        assert!(wrong.is_empty(), "docs/operating/security.md:\n{wrong}");
    }

    #[test]
    fn the_checklist_of_the_page_is_what_is_looked_at() {
        let page = page();
        for check in CHECKS {
            assert!(page.contains(&format!("(`doctor`: `{check}`)")), "the checklist does not name `{check}`");
        }
        assert_eq!(page.matches("(`doctor`: `").count(), CHECKS.len());
    }
}
