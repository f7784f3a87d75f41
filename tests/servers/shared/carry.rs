//! `spinney move-forest` and `spinney inspect` with a Redis.

use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney};
use crate::restart::{foretold, send, stored_roots};

fn moved(args: &[&str]) -> (bool, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_spinney"))
        .args(args)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// One spinney with a directory, then two with a Redis, then one with a directory again: nothing is forgotten on the way.
#[tokio::test]
async fn a_forest_moves_into_redis_and_back() {
    let (upstream, redis) = (common::opensearch(), Redis::cluster(3));
    let (server, client) = (Server::new(&upstream), common::http());
    let index = format!("shared-moved-{}", common::unique_index("a"));
    let (from, to) = (common::scratch("moved-from"), common::scratch("moved-to"));
    let (url, from_dir, to_dir) = (redis.url(), from.to_str().unwrap(), to.to_str().unwrap());
    let base = ["--upstream", &upstream, "--counts", "off"];
    let route = [
        "--index",
        &index,
        "--text-field",
        "content",
        "--title-field",
        "title",
    ];
    let serve = |more: &[&str]| Spinney::start(&[&base[..], &route, more].concat());
    let first: Vec<usize> = (0..120).filter(|n| n % 3 != 2).collect();
    let reprints: Vec<usize> = (0..120).filter(|n| n % 3 == 2).collect();

    let mut alone = serve(&["--data-dir", from_dir]);
    for bulk in [&first[..1], &first] {
        send(&client, &alone.url, &index, bulk).await.unwrap();
    }
    let roots = stored_roots(&server, &index).await;
    let into = [
        &["move-forest", "--from", from_dir, "--to", &url][..],
        &route,
    ]
    .concat();
    let (done, said) = moved(&into);
    assert!(!done && said.contains("another process"), "{said}");
    assert_eq!(alone.terminate(), Some(0));
    let (done, said) = moved(&into);
    assert!(
        done && said.contains("of them roots; 0 stayed behind"),
        "{said}"
    );
    let (done, said) = moved(&into);
    assert!(
        !done && said.contains("--replace to remove it first"),
        "{said}"
    );
    let (done, said) = moved(&[&into[..], &["--replace"]].concat());
    assert!(done, "{said}");
    let (done, said) = moved(&["inspect", &url]);
    assert!(
        done && said.contains(&format!("forest {index} (method verified, k 0")),
        "{said}"
    );
    assert!(said.contains(", 80 of them roots"), "{said}");

    let sharing = [(); 2].map(|()| serve(&["--forest-store", &url]));
    for &n in &first {
        assert_eq!(
            foretold(&client, &sharing[n % 2].url, &index, n).await,
            roots[&n]
        );
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

    let out = [&["move-forest", "--from", &url, "--to", to_dir][..], &route].concat();
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
