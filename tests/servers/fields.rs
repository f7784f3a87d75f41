//! A start that reads its texts from other fields is refused where a directory is full of texts from those of before,
//! and each way out that the refusal names leads out.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{self, Server, Spinney, spinney_command};
use crate::restart::{DataDir, check, document, foretold_of, send_as, stored_roots};

/// Document `n`, whose writer has renamed the field and still writes the old one.
pub fn renamed(n: usize) -> Value {
    let mut document = document(n);
    document["body"] = document["content"].clone();
    document
}

pub fn run(args: &[&str]) -> (bool, String) {
    let output = spinney_command().args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// Every file under a directory, with its bytes.
fn content(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(content(&path)),
            false => all.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all.sort_unstable();
    all
}

#[tokio::test]
async fn another_text_field_is_refused_and_each_way_out_leads_out() {
    let upstream = common::opensearch();
    let (server, client) = (Server::new(&upstream), common::http());
    let (dir, anew) = (DataDir::new("fields"), DataDir::new("fields-anew"));
    let unique = common::unique_index("fields");
    let (index, pattern) = (format!("{unique}-1"), format!("{unique}-*"));
    let options = |dir: &Path, field: &str, more: &[&str]| -> Vec<String> {
        let of = ["--upstream", &upstream, "--index", &pattern, "--title-field", "title", "--data-dir"];
        let own = [dir.to_str().unwrap(), "--text-field", field];
        [&of[..], &own, more].concat().into_iter().map(str::to_owned).collect()
    };
    let start = |dir: &Path, field: &str, more: &[&str]| {
        let all = options(dir, field, more);
        Spinney::try_start("127.0.0.1:0", &all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let recover = |dir: &Path, more: &[&str]| {
        let all = options(dir, "body", more);
        run(&["recover"].into_iter().chain(all.iter().map(String::as_str)).collect::<Vec<_>>())
    };
    let numbers: Vec<usize> = (0..30).collect();
    let mut first = start(dir.path(), "content", &[]).unwrap();
    for bulk in [&numbers[..1], &numbers[1..]] {
        send_as(&client, &first.url, &index, bulk, renamed).await.unwrap();
    }
    assert_eq!(first.terminate(), Some(0));
    let roots = stored_roots(&server, &index).await;
    let before = content(dir.path());

    // Neither spinney nor its recovery changes anything.
    let refused = start(dir.path(), "body", &[]).err().expect("it reads other texts");
    assert_eq!(refused.exit.and_then(|status| status.code()), Some(1), "{}", refused.log);
    for part in [
        &*pattern,
        "text_field=content title_field=title",
        "text_field=body title_field=title",
        "with the fields of before",
        "spinney recover",
        "--forest",
        "a route of their own",
    ] {
        assert!(refused.log.contains(part), "{part}: {}", refused.log);
    }
    let (done, said) = recover(dir.path(), &[]);
    assert!(!done && said.contains("text_field=content"), "{said}");
    let (done, said) = recover(dir.path(), &["--dry-run"]);
    assert!(!done, "{said}");
    assert!(content(dir.path()) == before, "nothing is changed");
    let (done, said) = run(&["inspect", dir.path().to_str().unwrap()]);
    assert!(done && said.contains(&format!("{pattern}, read from text_field=content title_field=title")), "{said}");
    assert!(content(dir.path()) == before, "nothing is changed");
    let examine = |field: &str| {
        let all = options(dir.path(), field, &[]);
        run(&["doctor"].into_iter().chain(all.iter().map(String::as_str)).collect::<Vec<_>>())
    };
    let (done, said) = examine("body");
    assert!(!done && said.contains("ERROR fields of the forest") && said.contains("text_field=content"), "{said}");
    let (_, said) = examine("content");
    assert!(!said.contains("fields of the forest"), "{said}");
    assert!(content(dir.path()) == before, "nothing is changed");

    // The fields of before.
    let back = start(dir.path(), "content", &[]).unwrap();
    assert_eq!(foretold_of(&client, &back.url, &index, &renamed(7)).await, roots[&7]);
    drop(back);

    // An empty directory, filled from the index.
    let (done, said) = recover(anew.path(), &[]);
    assert!(done && said.contains("30 placed"), "{said}");
    let rebuilt = start(anew.path(), "body", &[]).unwrap();
    for (n, root) in &roots {
        let mut reprint = renamed(*n);
        reprint.as_object_mut().unwrap().remove("content");
        assert_eq!(&foretold_of(&client, &rebuilt.url, &index, &reprint).await, root, "{n}");
    }
    drop(rebuilt);
    assert!(start(anew.path(), "content", &[]).is_err());

    // A forest of its own, which begins empty.
    let own = start(dir.path(), "body", &["--forest", "own"]).unwrap();
    assert_eq!(check(&client, &own.url, &index, &renamed(7)).await["decision"], "new_root");
    drop(own);

    // A route of their own for indices with the new field, in the same forest.
    let file = dir.path().with_extension("toml");
    let newer = format!("{unique}-2027");
    let route = |index: &str, field: &str| {
        let more = format!("title_field = 'title'\nforest = '{pattern}'\n");
        format!("[[route]]\nindex = ['{index}']\ntext_field = ['{field}']\n{more}")
    };
    std::fs::write(&file, route(&newer, "body") + &route(&pattern, "content")).unwrap();
    let beside = ["--upstream", &upstream, "--data-dir", dir.path().to_str().unwrap()];
    let beside = Spinney::start(&[&beside[..], &["--config", file.to_str().unwrap()]].concat());
    server.create_index(&newer, json!({})).await;
    let mut reprint = renamed(7);
    reprint.as_object_mut().unwrap().remove("content");
    assert_eq!(foretold_of(&client, &beside.url, &newer, &reprint).await, roots[&7]);
    drop(beside);
    std::fs::remove_file(&file).unwrap();
    for index in [&index, &newer] {
        server.delete_index(index).await;
    }
}
