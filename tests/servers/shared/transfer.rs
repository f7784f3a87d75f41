//! `spinney transfer` and `spinney inspect` with a Redis.

use super::kinds::{dated, near};
use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney};
use crate::restart::{check, document, foretold, foretold_of, send, send_as, stored_roots};

fn moved(args: &[&str]) -> (bool, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_spinney")).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// One spinney with a directory, then two with a Redis, then one with a directory again: nothing is forgotten on the
/// way.
#[tokio::test]
async fn a_forest_moves_into_redis_and_back() {
    let (upstream, redis) = (common::opensearch(), Redis::cluster(3));
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-moved-{}", common::unique_index("a"));
    let (from, to) = (common::scratch("moved-from"), common::scratch("moved-to"));
    let (url, from_dir, to_dir) = (redis.url(), from.to_str().unwrap(), to.to_str().unwrap());
    let base = ["--upstream", &upstream, "--counts", "off"];
    let route = ["--index", &index, "--text-field", "content", "--title-field", "title"];
    let serve = |more: &[&str]| Spinney::start(&[&base[..], &route, more].concat());
    let first: Vec<usize> = (0..120).filter(|n| n % 3 != 2).collect();
    let reprints: Vec<usize> = (0..120).filter(|n| n % 3 == 2).collect();

    let mut alone = serve(&["--data-dir", from_dir]);
    for bulk in [&first[..1], &first] {
        send(&client, &alone.url, &index, bulk).await.unwrap();
    }
    let roots = stored_roots(&server, &index).await;
    let into = [&["transfer", "--from", from_dir, "--to", &url][..], &route].concat();
    let (done, said) = moved(&into);
    assert!(!done && said.contains("another process"), "{said}");
    assert_eq!(alone.terminate(), Some(0));
    let (done, said) = moved(&into);
    assert!(done && said.contains("of them roots; 0 stayed behind"), "{said}");
    let (done, said) = moved(&into);
    assert!(!done && said.contains("--replace to remove it first"), "{said}");
    let (done, said) = moved(&[&into[..], &["--replace"]].concat());
    assert!(done, "{said}");
    let (done, said) = moved(&["inspect", &url]);
    assert!(done && said.contains(&format!("forest {index} (method verified, k 0")), "{said}");
    assert!(said.contains(", 80 of them roots"), "{said}");

    let sharing = [(); 2].map(|()| serve(&["--forest-store", &url]));
    for &n in &first {
        assert_eq!(foretold(&client, &sharing[n % 2].url, &index, n).await, roots[&n]);
    }
    for (spinney, bulk) in sharing.iter().zip([&reprints[..20], &reprints[20..]]) {
        for bulk in [&bulk[..1], bulk] {
            send(&client, &spinney.url, &index, bulk).await.unwrap();
        }
    }
    let roots = stored_roots(&server, &index).await;
    for n in &reprints {
        assert_eq!(roots[n], roots[&(n - 1)], "document {n}");
    }
    drop(sharing);

    let out = [&["transfer", "--from", &url, "--to", to_dir][..], &route].concat();
    let (done, said) = moved(&out);
    assert!(done && said.contains("80 of them roots"), "{said}");
    let (done, said) = moved(&out);
    assert!(!done && said.contains("move its folder away"), "{said}");
    let again = serve(&["--data-dir", to_dir]);
    for (&n, root) in &roots {
        assert_eq!(&foretold(&client, &again.url, &index, n).await, root);
    }
    drop(again);
    server.delete_index(&index).await;
    for dir in [from, to] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

/// What an index holds moves from a directory into a Redis and into another directory, and everything is known there,
/// by the same roots.
async fn moves(label: &str, options: &[&str], document: fn(usize) -> serde_json::Value, told: &[&str]) {
    let (upstream, redis) = (common::opensearch(), Redis::start());
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-moved-{}", common::unique_index(label));
    let (from, to) = (common::scratch("kind-from"), common::scratch("kind-to"));
    let (url, from_dir, to_dir) = (redis.url(), from.to_str().unwrap(), to.to_str().unwrap());
    let base = ["--upstream", &upstream, "--counts", "off"];
    let fields = ["--index", &index, "--text-field", "content"];
    let route = [&fields[..], options].concat();
    let serve = |more: &[&str]| Spinney::start(&[&base[..], &route, more].concat());
    let numbers: Vec<usize> = (0..120).collect();

    let mut alone = serve(&["--data-dir", from_dir]);
    // A bulk teaches each sentence once.
    for bulk in [&numbers[..1]].into_iter().chain(numbers.chunks(12)) {
        let sent = send_as(&client, &alone.url, &index, bulk, document).await;
        assert_eq!(sent.map(|stored| stored.len()), Some(bulk.len()));
    }
    let roots = stored_roots(&server, &index).await;
    let unknown = "a text of which nobody has ever heard anything, and that nobody has written before";
    let unknown = serde_json::json!({ "content": unknown });
    let known = |spinney: String| {
        let (client, index, unknown, roots) = (client.clone(), &index, &unknown, &roots);
        async move {
            for (&n, root) in roots {
                let found = foretold_of(&client, &spinney, index, &document(n)).await;
                assert_eq!(&found, root, "{n}");
            }
            let checked = check(&client, &spinney, index, unknown).await;
            assert_eq!(checked["decision"], "new_root", "{checked}");
        }
    };
    known(alone.url.clone()).await;
    assert_eq!(alone.terminate(), Some(0));
    let (_, inspected) = moved(&["inspect", from_dir]);
    let into = ["transfer", "--from", from_dir, "--to", &url];
    let (done, said) = moved(&[&into[..], &route].concat());
    assert!(done && said.contains("; 0 stayed behind"), "{said}");
    let (done, shared) = moved(&["inspect", &url]);
    assert!(done && told.iter().all(|told| shared.contains(told)), "{shared}");
    for row in ["nodes  ", "boilerplate  ", "page chrome  "] {
        let row_of = |said: &str| said.lines().find(|line| line.contains(row)).map(str::to_owned);
        assert_eq!(row_of(&shared), row_of(&inspected), "{shared}{inspected}");
    }
    known(serve(&["--forest-store", &url]).url.clone()).await;
    let out = ["transfer", "--from", &url, "--to", to_dir];
    let (done, said) = moved(&[&out[..], &route].concat());
    assert!(done && said.contains("; 0 stayed behind"), "{said}");
    let (_, again) = moved(&["inspect", to_dir]);
    assert_eq!(again.lines().next(), inspected.lines().next());
    known(serve(&["--data-dir", to_dir]).url.clone()).await;
    server.delete_index(&index).await;
    for dir in [from, to] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[tokio::test]
async fn a_forest_with_dates_moves() {
    let dates = ["--clock", "field:published", "--window", "100d"];
    let title = ["--title-field", "title"];
    let told = ["clock field", " to 2024-03-0"];
    moves("dated", &[&dates[..], &title].concat(), dated, &told).await;
}

#[tokio::test]
async fn a_forest_with_a_distance_moves() {
    let told = ["method full", "k 3"];
    moves("near", &["--method", "full", "--k", "3"], near, &told).await;
}

/// A footer that everybody has printed is boilerplate after the move as well.
#[tokio::test]
async fn what_was_learned_moves() {
    let told = [" 7 sentences"];
    moves("learned", &["--title-field", "title"], document, &told).await;
}

/// A forest on Redis does not find what `short` looks for: every command that would use one says so before it asks
/// anybody.
#[test]
fn a_method_with_a_wide_distance_is_refused_everywhere() {
    let dir = common::scratch("wide");
    std::fs::create_dir_all(&dir).unwrap();
    let (dir_of, file) = (dir.to_str().unwrap(), dir.join("spinney.toml"));
    let url = "redis://127.0.0.1:1";
    let options = format!("forest_store = '{url}'\n[[route]]\nindex = ['a']\nmethod = 'short'\n");
    std::fs::write(&file, options).unwrap();
    let route = ["--index", "a", "--method", "short:longest"];
    let reason = "looks for texts up to 10 bits apart, and a forest on Redis finds up to 4: keep its forest in this \
                  process with --data-dir, or choose another method";
    for (command, method) in [
        ([&["serve", "--forest-store", url][..], &route].concat(), "short:longest"),
        ([&["transfer", "--from", dir_of, "--to", url][..], &route].concat(), "short:longest"),
        ([&["transfer", "--from", url, "--to", dir_of][..], &route].concat(), "short:longest"),
        (vec!["recover", "--config", file.to_str().unwrap()], "short"),
    ] {
        let (done, said) = moved(&command);
        assert!(!done && said.contains(&format!("the method {method} {reason}")), "{command:?}: {said}");
    }
    let (done, said) = moved(&["serve", "--forest-store", url, "--index", "a", "--method", "full", "--k", "5"]);
    assert!(!done && said.contains("up to 5 bits apart") && said.contains("a k of at most 4"), "{said}");
    std::fs::remove_dir_all(dir).unwrap();
}
