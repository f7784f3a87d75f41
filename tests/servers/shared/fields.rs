//! Two spinneys with one Redis that read their texts from different fields: the second one is refused.

use reqwest::Client;

use crate::common::redis::Redis;
use crate::common::{self, Server, Spinney, Waiting};
use crate::fields::{renamed, run};
use crate::restart::{foretold_of, send_as, stored_roots};

/// What a write of one document is answered.
async fn write(client: &Client, spinney: &Spinney, index: &str, n: usize) -> (u16, String) {
    let sent = client.put(format!("{}/{index}/_doc/{n}", spinney.url)).json(&renamed(n)).send().await.unwrap();
    (sent.status().as_u16(), sent.text().await.unwrap())
}

#[tokio::test]
async fn the_second_of_two_with_other_fields_is_refused() {
    let (upstream, mut redis) = (common::opensearch(), Redis::start());
    let (server, client) = (Server::new(&upstream), common::http());
    let index = common::unique_index("shared-fields");
    let dir = common::scratch("shared-fields");
    let (url, dir) = (redis.url(), dir.to_str().unwrap());
    let route = |field| ["--index", &*index, "--title-field", "title", "--text-field", field];
    let start = |field| {
        let of = ["--upstream", &*upstream, "--forest-store", &*url];
        Spinney::start(&[&of[..], &route(field)].concat())
    };
    let refuses = |asked: &'static str, recorded: &str| {
        let of = ["--upstream", &*upstream, "--forest-store", &*url];
        let all = [&of[..], &route(asked)].concat();
        let refused = Spinney::try_start("127.0.0.1:0", &all).err().expect("it reads other texts");
        assert_eq!(refused.exit.and_then(|status| status.code()), Some(1), "{}", refused.log);
        let (done, said) = run(&[&["doctor"], &all[..]].concat());
        assert!(!done, "{said}");
        for said in [refused.log, said] {
            for part in [asked, recorded] {
                assert!(said.contains(&format!("text_field={part} title_field=title")), "{part}: {said}");
            }
            assert!(said.contains("--replace"), "{said}");
        }
    };
    let first = start("content");
    // It may read what it wants while there is nothing.
    let second = start("body");
    let numbers: Vec<usize> = (0..30).collect();
    for bulk in [&numbers[..1], &numbers[1..]] {
        send_as(&client, &first.url, &index, bulk, renamed).await.unwrap();
    }
    let roots = stored_roots(&server, &index).await;
    // Its first document, which would be placed when it is stored, like all others.
    for n in [100, 101] {
        let (status, said) = write(&client, &second, &index, n).await;
        assert_eq!(status, 503, "{said}");
        assert!(said.contains("spinney_forest_unavailable_exception"), "{said}");
    }
    for (spinney, expected) in [(&first, 200), (&second, 503)] {
        let ready = client.get(format!("{}/_spinney/_ready", spinney.url)).send().await.unwrap();
        let status = ready.status().as_u16();
        assert_eq!(status, expected, "{}", ready.text().await.unwrap());
    }
    let line = second.log_line("why it is refused", |line| line.contains("text_field=content title_field=title"));
    for part in ["text_field=body title_field=title", "spinney recover", "--replace", "--forest"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(write(&client, &first, &index, 102).await.0, 201);
    refuses("body", "content");
    let (done, said) = run(&["inspect", &url]);
    assert!(done && said.contains(&format!("{index}, read from text_field=content title_field=title")), "{said}");

    // The order in which they find an empty Redis decides, not the one in which they started.
    redis.restart_empty();
    let again: Vec<usize> = (200..210).collect();
    let waiting = Waiting::until("it has seen that Redis is back");
    while write(&client, &first, &index, 103).await.0 >= 300 {
        waiting.pause().await;
    }
    send_as(&client, &first.url, &index, &again, renamed).await.unwrap();
    let (status, said) = write(&client, &second, &index, 104).await;
    assert_eq!(status, 503, "{said}");
    drop((first, second));

    // The way out, while none of them runs.
    let recover = [&["recover", "--upstream", &upstream, "--data-dir", dir][..], &route("body")].concat();
    let (done, said) = run(&recover);
    assert!(done, "{said}");
    // Whatever fields it is given.
    let transfer = ["transfer", "--from", dir, "--to", &url, "--replace", "--index", &index];
    let (done, said) = run(&transfer);
    assert!(done, "{said}");
    let rebuilt = start("body");
    for n in [0, 7, 29] {
        let mut reprint = renamed(n);
        reprint.as_object_mut().unwrap().remove("content");
        assert_eq!(foretold_of(&client, &rebuilt.url, &index, &reprint).await, roots[&n], "{n}");
    }
    refuses("content", "body");
    std::fs::remove_dir_all(dir).unwrap();
    server.delete_index(&index).await;
}
