//! What is known to be wrong, or looks wrong and is not.

/// An article of this id, with both newlines.
fn good(id: &str) -> Vec<u8> {
    format!("{{\"index\":{{\"_id\":\"{id}-#\"}}}}\n{{\"content\":\"a harbour full of boats\"}}\n").into_bytes()
}

fn indexed(source: &[u8]) -> Vec<u8> {
    [b"{\"index\":{\"_id\":\"x-#\"}}\n", source, b"\n"].concat()
}

fn updated(body: &[u8]) -> Vec<u8> {
    [b"{\"update\":{\"_id\":\"a-#\"}}\n", body, b"\n"].concat()
}

/// Between two good documents, so that it shows when they do not get their due.
fn between(middle: Vec<u8>) -> Vec<u8> {
    [good("a"), middle, good("b")].concat()
}

pub fn bodies() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for source in SOURCES {
        bodies.push(between(indexed(source)));
    }
    for source in large_sources() {
        bodies.push(between(indexed(&source)));
    }
    for body in UPDATES {
        bodies.push(between(updated(body)));
        // Alone it leaves no document to update.
        bodies.push(updated(body));
    }
    for action in ACTIONS {
        bodies.push(between([action, &b"\n{\"content\":\"under an odd action\"}\n"[..]].concat()));
        bodies.push([action, &b"\n"[..]].concat());
    }
    for lines in LINES {
        bodies.push(between(lines.to_vec()));
        bodies.push(lines.to_vec());
    }
    bodies
}

/// Elasticsearch 7 has no limit to the depth and ends itself when its stack is used up.
pub fn deep_bodies() -> Vec<Vec<u8>> {
    let field = |value: String| format!("{{\"content\":\"x\",\"raw\":{value}}}").into_bytes();
    [
        field("[".repeat(6000) + &"]".repeat(6000)),
        field("[".repeat(20_000)),
        field("{\"k\":".repeat(6000) + "1" + &"}".repeat(6000)),
        "[".repeat(20_000).into_bytes(),
    ]
    .iter()
    .map(|source| between(indexed(source)))
    .collect()
}

const SOURCES: &[&[u8]] = &[
    b"",
    b" ",
    b"\t\r",
    b"{",
    b"}",
    b"{}",
    b"{}{}",
    b"{} garbage",
    b"[]",
    b"[{\"content\":\"x\"}]",
    b"null",
    b"true",
    b"7",
    b"\"content\"",
    b"content",
    b"{\"content\"}",
    b"{\"content\":}",
    b"{\"content\":\"x\",}",
    b"{,\"content\":\"x\"}",
    b"{\"content\":\"x\" \"n\":1}",
    b"{\"content\":\"x\";\"n\":1}",
    b"{\"content\" \"x\"}",
    b"{\"content\"::\"x\"}",
    b"{\"content\":\"x\"}}",
    b"{\"content\":\"x\"]",
    b"{\"content\":[\"x\"}",
    b"{\"content\":[\"x\",]}",
    b"{\"content\":[\"x\",,\"y\"]}",
    b"{\"content\":[,\"x\"]}",
    b"{\"content\":\"x}",
    b"{\"content\":\"x\\\"}",
    b"{content:\"x\"}",
    b"{'content':'x'}",
    b"{\"content\":'x'}",
    b"{\"content\":\"x\",\"n\":NaN}",
    b"{\"content\":\"x\",\"n\":Infinity}",
    b"{\"content\":\"x\",\"n\":-Infinity}",
    b"{\"content\":\"x\",\"n\":+1}",
    b"{\"content\":\"x\",\"n\":01}",
    b"{\"content\":\"x\",\"n\":-01}",
    b"{\"content\":\"x\",\"n\":.5}",
    b"{\"content\":\"x\",\"n\":5.}",
    b"{\"content\":\"x\",\"n\":1e}",
    b"{\"content\":\"x\",\"n\":0x1}",
    b"{\"content\":\"x\",\"n\":-}",
    b"{\"content\":\"x\",\"n\":1e2}",
    b"{\"content\":\"x\",\"n\":99999999999999999999}",
    b"{\"content\":\"x\",\"n\":\"no number\"}",
    b"{\"content\":\"x\",\"n\":nul}",
    b"{\"content\":\"x\",\"n\":True}",
    b"{\"content\":\"x\",\"n\":truefalse}",
    b"{\"content\":\"x\",\"day\":\"no day\"}",
    b"{\"content\":17}",
    b"{\"content\":null}",
    b"{\"content\":{}}",
    b"{\"content\":{\"a\":1}}",
    b"{\"content\":[[\"x\"],{\"y\":1}]}",
    b"{\"content\":\"a\",\"content\":\"a\"}",
    b"{\"content\":\"a\",\"c\\u006fntent\":\"a\"}",
    b"{\"raw\":{\"a\":1,\"a\":2},\"content\":\"x\"}",
    b"{\"raw\":{\"a\":1},\"raw\":{\"b\":1},\"content\":\"x\"}",
    b"{\"obj.a\":1,\"obj\":{\"a\":2},\"content\":\"x\"}",
    b"{\"\":1,\"content\":\"x\"}",
    b"{\" \":1,\"content\":\"x\"}",
    b"{\".\":1,\"content\":\"x\"}",
    b"{\"q..b\":1,\"content\":\"x\"}",
    b"{\".q\":1,\"content\":\"x\"}",
    b"{\"_id\":\"x\",\"content\":\"x\"}",
    b"{\"_source\":{},\"content\":\"x\"}",
    b"{\"content.inner\":\"x\"}",
    b"/* c */{\"content\":\"x\"}",
    b"// c",
    b"/* c",
    b"{\"content\":\"x\"}// c",
    b"{\"content\":\"x\"// }",
    b"{\"content\":\"x\"/* }",
    b"{/*/\"content\":\"x\"}",
    b"{\"content\":/* \" */\"x\"}",
    b"# c {\"content\":\"x\"}",
    b"{\"content\":\"x\"} # c",
    b"{\"content\":\"a\tb\"}",
    b"{\"content\":\"a\rb\"}",
    b"{\"content\":\"a\0b\"}",
    b"{\"content\":\"a\x1fb\"}",
    b"{\"content\":\"a\x7fb\"}",
    b"{\"content\":\"\\u0000\"}",
    b"{\"content\":\"\\x41\"}",
    b"{\"content\":\"\\'\"}",
    b"{\"content\":\"\\U0041\"}",
    b"{\"content\":\"\\u12\"}",
    b"{\"content\":\"\\u12G4\"}",
    b"{\"content\":\"\\",
    b"{\"content\":\"\\ud800\"}",
    b"{\"content\":\"\\udc00\\ud800\"}",
    b"{\"content\":\"\\ud800\\u0041\"}",
    b"{\"\\ud800\":1,\"content\":\"x\"}",
    b"{\"\\ucontent\":1}",
    b"{\"content\":\"\xff\"}",
    b"{\"content\":\"\xc0\x80\"}",
    b"{\"content\":\"\xe0\x80\x80\"}",
    b"{\"content\":\"\xed\xa0\x80\"}",
    b"{\"content\":\"\xf4\x90\x80\x80\"}",
    b"{\"content\":\"\xf5\x80\x80\x80\"}",
    b"{\"content\":\"\xe4\xb8\"}",
    b"{\"content\":\"\xe4\xb8",
    b"{\"\xff\":1,\"content\":\"x\"}",
    b"{\"raw\":{\"k\":\"\xff\"},\"content\":\"x\"}",
    b"{\"raw\":{\"k\":\"\xed\xa0\x80\"},\"content\":\"x\"}",
    b"\xff{\"content\":\"x\"}",
    b"{\"content\":\"x\"}\xff",
    b"{\xa0\"content\":\"x\"}",
    b"{\xc2\xa0\"content\":\"x\"}",
    b"\xef\xbb\xbf{\"content\":\"x\"}",
    b"\xef\xbb\xbf\xef\xbb\xbf{\"content\":\"x\"}",
    b"\xef\xbb{\"content\":\"x\"}",
    b"{\xef\xbb\xbf\"content\":\"x\"}",
    b"{\0\"\0n\0\"\0:\x001\0}\0",
    b"\xfe\xff\0{\0\"\0n\0\"\0:\x001\0}",
    b"\xff\xfe{\0\"\0n\0\"\0:\x001\0}\0",
    b"\0{\"content\":\"x\"}",
    b"{\"content\":\"x\"}\0",
    b":)\n\0\xfa\xfb",
    // Stamps that are doubled, unfinished, or none that spinney could have written.
    b"{\"cluster_root\":\"x\",\"cluster_root\":\"x\",\"content\":\"x\"}",
    b"{\"cluster_root\":\"x\",\"\\u0063luster_root\":\"x\",\"content\":\"x\"}",
    b"{\"cluster_root\":\"x\",\"content\":\"x\"",
    b"{\"cluster_root\":,\"content\":\"x\"}",
    b"{\"cluster_root\":\"\xff\",\"content\":\"x\"}",
    b"{\"cluster_root\":\"a\tb\",\"content\":\"x\"}",
    b"{\"cluster_root\":\"\\x\",\"content\":\"x\"}",
    b"{\"cluster_root\":{\"a\":1},\"content\":\"x\"}",
    b"{\"cluster_key\":01,\"content\":\"x\"}",
    b"{\"cluster_key\":NaN,\"content\":\"x\"}",
    b"{\"cluster_key\":[1,],\"content\":\"x\"}",
    b"{\"cluster_hash\":[\"a\" \"b\"],\"content\":\"x\"}",
    b"{\"cluster_hash\":[{\"a\":1,\"a\":1}],\"content\":\"x\"}",
    b"{\"cluster_arrival\":/*,*/null,,\"content\":\"x\"}",
    b"{\"content\":\"x\",\"cluster_arrival\":\"2026-01-01\",}",
    b"{\"cluster_root\":\"x\"\"content\":\"x\"}",
    b"{\"cluster_root\"}",
    b"{\"cluster_root\":\"x\" // }",
];

fn large_sources() -> Vec<Vec<u8>> {
    let repeat = |piece: &str, times: usize| piece.repeat(times).into_bytes();
    let field = |value: Vec<u8>| [b"{\"content\":\"x\",\"raw\":", &value[..], b"}"].concat();
    vec![
        field(repeat("9", 400)),
        field(repeat("9", 1001)),
        field([repeat("[", 1100), repeat("]", 1100)].concat()),
        field([repeat("{\"k\":", 900), repeat("1", 1), repeat("}", 900)].concat()),
        [b"{\"content\":\"x\",\"deep\":", &repeat("{\"k\":", 25)[..], b"1", &repeat("}", 26)].concat(),
        [b"{\"content\":", &repeat("[", 1500)[..], b"\"x\"", &repeat("]", 1500), b"}"].concat(),
        [b"{\"", &repeat("k", 60_000)[..], b"\":1,\"content\":\"x\"}"].concat(),
        [b"{\"content\":\"", &repeat("long ", 40_000)[..], b"\"}"].concat(),
        [&repeat(" ", 5000)[..], b"{\"content\":\"x\"}"].concat(),
        [b"{\"cluster_root\":\"", &repeat("x", 100_000)[..], b"\",\"content\":\"x\"}"].concat(),
        [b"{\"cluster_key\":", &repeat("9", 1001)[..], b",\"content\":\"x\"}"].concat(),
        [b"{\"cluster_hash\":", &repeat("[", 1100)[..], &repeat("]", 1100), b",\"content\":\"x\"}"].concat(),
    ]
}

const UPDATES: &[&[u8]] = &[
    b"",
    b" ",
    b"{",
    b"{}",
    b"[]",
    b"null",
    b"7",
    b"{\"doc\"}",
    b"{\"doc\":}",
    b"{\"doc\":{\"content\":\"y\"}",
    b"{\"doc\":{\"content\":\"y\"}},",
    b"{\"doc\":{\"content\":\"y\"}} garbage",
    b"{\"doc\":{\"content\":\"y\"}}}",
    b"{\"doc\":{\"content\":\"y\"},}",
    b"{\"doc\":{\"content\":\"y\",}}",
    b"{\"doc\":{\"content\":\"y\",\"content\":\"y\"}}",
    b"{\"doc\":{\"raw\":{\"a\":1,\"a\":1},\"content\":\"y\"}}",
    b"{\"doc\":{\"content\":\"y\"},\"doc\":{\"content\":\"z\"}}",
    b"{\"doc\":{\"content\":\"y\"},\"d\\u006fc\":{\"content\":\"z\"}}",
    b"{\"doc\":{\"content\":\"\xff\"}}",
    b"{\"doc\":{\"content\":\"\xc0\x80\"}}",
    b"{\"doc\":{\"content\":\"\\ud800\"}}",
    b"{\"doc\":{\"content\":\"\\x\"}}",
    b"{\"doc\":null}",
    b"{\"doc\":\"y\"}",
    b"{\"doc\":[{\"content\":\"y\"}]}",
    b"{\"doc\":{\"content\":\"y\"},\"upsert\":null}",
    b"{\"doc\":{\"content\":\"y\"},\"upsert\":[]}",
    b"{\"upsert\":{\"content\":\"y\"}}",
    b"{\"doc\":{\"content\":\"y\"},\"script\":null}",
    b"{\"doc\":{\"content\":\"y\"},\"script\":\"x\"}",
    b"{\"doc\":{\"content\":\"y\"},\"doc_as_upsert\":\"maybe\"}",
    b"{\"doc\":{\"content\":\"y\"},\"doc_as_upsert\":null}",
    b"{\"doc\":{\"content\":\"y\"},\"doc_as_upsert\":true,\"doc_as_upsert\":true}",
    b"{\"doc\":{\"content\":\"y\"},\"doc_as_upsert\":true,\"upsert\":{\"content\":\"z\"}}",
    b"{\"doc\":{\"content\":\"y\"},\"detect_noop\":7}",
    b"{\"doc\":{\"content\":\"y\"},\"_source\":{\"a\":1}}",
    b"{\"doc\":{\"content\":\"y\"},\"unknown\":1}",
    b"{\"content\":\"y\"}",
    b"{\"doc\":{\"day\":\"no day\",\"content\":\"y\"}}",
    b"{\"doc\":{\"content\":{\"a\":1}}}",
    b"{\"doc\":{\"content\":null}}",
    b"{\"doc\":{\"cluster_root\":\"x\",\"cluster_root\":\"x\",\"content\":\"y\"}}",
    b"{\"doc\":{\"cluster_root\":\"x\"}}",
    b"{\"doc\":{\"cluster_root\":\"x\",\"content\":\"y\"}}",
    b"/* c */{\"doc\":{\"content\":\"y\"}}",
    b"{\"doc\":/* { */{\"content\":\"y\"}// }",
    b"\xef\xbb\xbf{\"doc\":{\"content\":\"y\"}}",
];

const ACTIONS: &[&[u8]] = &[
    b"{",
    b"}",
    b"{}",
    b"[]",
    b"null",
    b"index",
    b"\"index\"",
    b"{\"index\"}",
    b"{\"index\":}",
    b"{\"index\":{}",
    b"{\"index\":{\"_id\":\"y-#\"}",
    b"{\"index\":{\"_id\":\"y-#\"}}}",
    b"{\"index\":{\"_id\":\"y-#\"}},{\"index\":{}}",
    b"{\"index\":{\"_id\":\"y-#\"},\"create\":{\"_id\":\"z-#\"}}",
    b"{\"index\":{\"_id\":\"y-#\"}} // c",
    b"// c",
    b"/* c",
    b"/* c */",
    b"{\"index\":null}",
    b"{\"index\":[]}",
    b"{\"index\":\"x\"}",
    b"{\"index\":{\"_id\":{}}}",
    b"{\"index\":{\"_id\":[]}}",
    b"{\"index\":{\"_id\":}}",
    b"{\"index\":{\"_id\"}}",
    b"{\"index\":{\"_id\":\"y-#\",}}",
    b"{\"index\":{\"_id\":\"y-#\" \"routing\":\"r\"}}",
    b"{\"index\":{\"_id\":\"y-#\",\"_id\":\"y-#\"}}",
    b"{\"index\":{\"_id\":\"\"}}",
    b"{\"index\":{\"_id\":\"\xff\"}}",
    b"{\"index\":{\"_id\":\"\\ud800\"}}",
    b"{\"index\":{\"_id\":\"\\x\"}}",
    b"{\"index\":{\"_id\":\"y\tz\"}}",
    b"{\"index\":{\"_index\":\"\"}}",
    b"{\"index\":{\"_index\":\"UPPER\"}}",
    b"{\"index\":{\"_index\":\"a,b\"}}",
    b"{\"index\":{\"_index\":\"_all\"}}",
    b"{\"index\":{\"unknown\":1}}",
    b"{\"index\":{\"unknown\":{\"a\":[1,2]}}}",
    b"{\"index\":{\"version\":\"x\"}}",
    b"{\"index\":{\"version_type\":\"x\"}}",
    b"{\"index\":{\"_id\":\"y-#\",\"if_seq_no\":7}}",
    b"{\"index\":{\"_id\":\"y-#\",\"if_seq_no\":7,\"if_primary_term\":1}}",
    b"{\"index\":{\"_id\":\"y-#\",\"op_type\":\"zap\"}}",
    b"{\"index\":{\"_id\":\"y-#\",\"require_alias\":\"x\"}}",
    b"{\"index\":{\"_id\":\"y-#\",\"pipeline\":\"none-such\"}}",
    b"{\"upsert\":{\"_id\":\"y-#\"}}",
    b"{\"INDEX\":{\"_id\":\"y-#\"}}",
    b"{\"\":{}}",
    b"{\"\\u0069ndex\":{\"_id\":\"y-#\"}}",
    b"{\"\\uindex\":{\"_id\":\"y-#\"}}",
    b"{index:{_id:\"y-#\"}}",
    b"{'index':{'_id':'y-#'}}",
    b"{\"delete\":{}}",
    b"{\"delete\":{\"_id\":\"y-#\"}}",
    b"{\"update\":{}}",
    b"{\"update\":{\"_id\":\"a-#\",\"version\":1}}",
    b"{\"update\":{\"_id\":\"a-#\",\"_source\":[\"a\"]}}",
    b"\xef\xbb\xbf{\"index\":{\"_id\":\"y-#\"}}",
    b"{\0\"\0i\0n\0d\0e\0x\0\"\0:\0{\0}\0}\0",
    b"\0",
    b"\xff",
];

const LINES: &[&[u8]] = &[
    b"\n",
    b"\n\n\n",
    b" \n\t\n\r\n",
    b"\r",
    b"{\"index\":{\"_id\":\"l-#\"}}",
    b"{\"index\":{\"_id\":\"l-#\"}}\n",
    b"{\"index\":{\"_id\":\"l-#\"}}\n{\"content\":\"x\"}",
    b"{\"index\":{\"_id\":\"l-#\"}}\r{\"content\":\"x\"}\r",
    b"{\"index\":{\"_id\":\"l-#\"}}\n\n{\"content\":\"x\"}\n",
    b"{\"index\":{\"_id\":\"l-#\"}}\r\r\n{\"content\":\"x\"}\r\r\n",
    b"{\"index\":{\"_id\":\"l-#\"}}{\"content\":\"x\"}\n",
    b"{\"content\":\"x\"}\n",
    b"{\"content\":\"x\"}\n{\"index\":{\"_id\":\"l-#\"}}\n",
    b"{\"delete\":{\"_id\":\"a-#\"}}\n{\"delete\":{\"_id\":\"a-#\"}}\n",
    b"{\"delete\":{\"_id\":\"a-#\"}}\n{\"content\":\"x\"}\n",
    b"[{\"index\":{\"_id\":\"l-#\"}},{\"content\":\"x\"}]\n",
    b"{\n\"index\":{\"_id\":\"l-#\"}}\n{\"content\":\"x\"}\n",
    b"{\"index\":{\"_id\":\"l-#\"}}\n{\n\"content\":\"x\"}\n",
    b"{\"index\":{\"_id\":\"l-#\"}}\n{\"content\":\"x\ny\"}\n",
    b"{\"index\":{\"_id\":\"l-#\"}}\xe2\x80\xa8{\"content\":\"x\"}\n",
];
