//! What a document by API cannot do: widen anything, reach another tenant, or harm the server.

use dalsegno_access::Scope;
use serde_json::{Value, json};

use crate::catalogue::{ANY, NEW, calls, says, write};
use crate::client::Client;
use crate::world::World;

/// The scopes of a tenant's administrator who is not one of tenants.
const OF_TENANT: &[Scope] = &[
    Scope::RunsList,
    Scope::RunsRead,
    Scope::RunsWrite,
    Scope::AnswersWrite,
    Scope::AgentsRead,
    Scope::AgentsWrite,
    Scope::ToolsRead,
    Scope::ToolsWrite,
];

async fn refused(client: &Client, path: &str, kind: &str, text: &str, code: &str) -> Value {
    let answer = client.put(path, kind, ANY, text).await;
    let problem = answer.is_problem(422, "invalid").json();
    let found = problem["diagnostics"].as_array().unwrap();
    assert!(found.iter().any(|found| found["code"] == code && found["line"].is_u64()), "{code}: {problem}");
    problem
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_widens_nothing() {
    let world = World::new().await;
    // Even what is granted to the tenant's file.
    write(
        &world,
        "dalsegno.toml",
        "[tenants.acme]\nenv_prefixes = [\"ACME_\"]\nfile_prefixes = [\"secrets/acme\"]\n",
    );
    write(
        &world,
        "tenants/acme.toml",
        "name = \"acme\"\negress = [\"https://acme.example\"]\n[secrets]\na = { env = \"ACME_TOKEN\" }\n",
    );
    write(&world, "form.json", "{ \"type\": \"object\", \"title\": \"SECRET-FORM\" }");
    let (acme, all) = (world.client("acme", OF_TENANT), world.all("*"));
    let head = "name = \"acme\"\negress = [\"https://acme.example\"]\n";
    for reference in [
        "{ env = \"ACME_TOKEN\" }",
        "{ file = \"secrets/acme/token\" }",
        "{ file = \"../../etc/passwd\" }",
        "{ command = [\"cat\", \"/etc/passwd\"] }",
        "{ store = \"oauth.rival.crm\" }",
        "{ store = \"request.x\" }",
    ] {
        for client in [&acme, &all] {
            let text = format!("{head}[secrets]\ntoken = {reference}\n");
            refused(client, "/v1/tenants/acme", "toml", &text, "secret-not-granted").await;
            let text = format!("{head}[tools.word]\nsecrets = {{ token = {reference} }}\n");
            write(
                &world,
                "tools/word.json",
                &says("word", "x").replace("\"Says", "\"{{secrets.token}} Says"),
            );
            let answer = client.put("/v1/tenants/acme", "toml", ANY, &text).await;
            assert!(answer.is_problem(422, "invalid").text.contains("secret-not-granted"), "{answer:?}");
            std::fs::remove_file(world.root().join("tools/word.json")).unwrap();
        }
    }
    // Each name in the store is one of the tenant's own secrets.
    let own = format!("{head}[secrets]\ntoken = {{ store = \"rival.token\" }}\n");
    assert_eq!(acme.put("/v1/tenants/acme", "toml", ANY, &own).await.status, 200);
    let tenants = world.engine.workspace().tenants.clone();
    let reference = format!("{:?}", tenants["acme"].secrets["token"]);
    assert!(reference.contains("OfTenant") && reference.contains("acme"), "{reference}");
    // An agent names no file.
    let agent = "name = \"form\"\ninstructions = \"x\"\n[[steps]]\nask = \"x\"\nschema = \"form.json\"\n";
    let problem =
        all.put("/v1/agents/form", "toml", NEW, agent).await.is_problem(422, "invalid").text.clone();
    assert!(problem.contains("names a file") && !problem.contains("SECRET-FORM"), "{problem}");
    let elsewhere = agent.replace("form.json", "/etc/passwd");
    let problem =
        all.put("/v1/agents/form", "toml", NEW, &elsewhere).await.is_problem(422, "invalid").text.clone();
    assert!(!problem.contains("root:"), "{problem}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_a_tenant_reaches_and_what_it_spends_takes_a_scope_of_its_own() {
    let world = World::new().await;
    write(&world, "tenants/acme.toml", "name = \"acme\"\negress = [\"https://acme.example\"]\n");
    let acme = world.client("acme", OF_TENANT);
    let admin = world.client("acme", &[OF_TENANT, &[Scope::TenantsAdmin]].concat());
    for text in [
        "name = \"acme\"\negress = [\"https://acme.example\", \"https://evil.example\"]\n",
        "name = \"acme\"\n",
        "name = \"acme\"\negress = [\"https://acme.example\"]\n[budget]\nmax_cost_usd_per_day = 5\n",
    ] {
        let answer = acme.put("/v1/tenants/acme", "toml", ANY, text).await;
        assert!(answer.is_problem(403, "forbidden").text.contains("tenants:admin"), "{answer:?}");
        let checked = acme
            .send("POST", "/v1/tenants/acme/check", &[("content-type", "application/toml")], text.as_bytes())
            .await;
        assert_eq!(
            (checked.json()["ok"].clone(), checked.json()["scopes"].clone()),
            (json!(true), json!(["tenants:admin"]))
        );
    }
    let same = "name = \"acme\"\negress = [\"https://acme.example\"]\n[settings]\nlanguage = \"fr\"\n";
    assert_eq!(acme.put("/v1/tenants/acme", "toml", ANY, same).await.status, 200);
    let wider = same.replace("acme.example\"", "acme.example\", \"https://more.example\"");
    assert_eq!(admin.put("/v1/tenants/acme", "toml", ANY, &wider).await.status, 200);
    // To uncover the file would reach others again.
    acme.delete("/v1/tenants/acme", ANY).await.is_problem(403, "forbidden");
    assert_eq!(admin.delete("/v1/tenants/acme", ANY).await.status, 200);
    // Without the scope no tenant is added, not even an empty one.
    let all = world.client("*", OF_TENANT);
    all.put("/v1/tenants/new", "toml", NEW, "name = \"new\"\n").await.is_problem(403, "forbidden");
    assert_eq!(world.all("*").put("/v1/tenants/new", "toml", NEW, "name = \"new\"\n").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_of_the_catalogue_gets_no_secret_of_the_workspace() {
    let world = World::new().await;
    write(&world, "tools/crm.json", &says("crm", "x"));
    let client = world.all("*");
    world.engine.look().await;
    let owner = |tenant: &str| format!("{:?}", world.engine.workspace().owner_of(tenant, "crm"));
    assert_eq!(owner("acme"), "Workspace");
    assert_eq!(client.put("/v1/tools/crm", "json", ANY, &says("crm", "y")).await.status, 200);
    assert_eq!(owner("acme"), "Tenant(\"acme\")");
    assert_eq!(owner("default"), "Tenant(\"default\")");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_reaches_the_documents_of_its_own_tenant_alone() {
    let world = World::new().await;
    let (acme, rival) = (world.all("acme"), world.all("rival"));
    let path = "/v1/tenants/rival/tools/own";
    let put = rival.put(path, "json", NEW, &says("own", "RIVAL-ONLY")).await;
    assert_eq!(put.status, 201, "{put:?}");
    let version = put.json()["version"].as_str().unwrap().to_owned();
    let json = [("content-type", "application/json"), ANY];
    for (method, path, body) in [
        ("GET", path.to_owned(), ""),
        ("PUT", path.to_owned(), "{}"),
        ("DELETE", path.to_owned(), ""),
        ("GET", format!("{path}/versions"), ""),
        ("GET", format!("{path}/versions/{version}"), ""),
        ("POST", format!("{path}/check"), "{}"),
        ("POST", format!("{path}/try"), "{}"),
        ("GET", "/v1/tenants/rival".to_owned(), ""),
        ("PUT", "/v1/tenants/rival".to_owned(), "name = \"rival\"\n"),
        ("DELETE", "/v1/tenants/rival".to_owned(), ""),
        ("GET", "/v1/tenants/rival/versions".to_owned(), ""),
        ("GET", "/v1/tenants/rival/tools".to_owned(), ""),
    ] {
        let theirs = acme.send(method, &path, &json, body.as_bytes()).await;
        let none = acme.send(method, &path.replace("rival", "missing"), &json, body.as_bytes()).await;
        theirs.is_problem(404, "not_found");
        assert_eq!((theirs.status, &theirs.text), (none.status, &none.text), "{method} {path}");
    }
    for listing in ["/v1/tenants", "/v1/tools", "/v1/tenants/acme/tools", "/v1/agents"] {
        let listed = acme.get(listing).await;
        assert!(
            listed.status == 200 && !listed.text.contains("own") && !listed.text.contains("rival"),
            "{listed:?}"
        );
    }
    // What all share takes a key of all.
    for (method, path) in [
        ("GET", "/v1/tools/word"),
        ("PUT", "/v1/tools/word"),
        ("DELETE", "/v1/tools/word"),
        ("POST", "/v1/tools/word/check"),
        ("POST", "/v1/tools/word/try"),
        ("GET", "/v1/agents/echo"),
        ("PUT", "/v1/agents/echo"),
        ("DELETE", "/v1/agents/echo"),
        ("GET", "/v1/agents/echo/versions"),
    ] {
        acme.send(method, path, &json, b"{}").await.is_problem(403, "forbidden");
    }
    // A try does not lead to another tenant either.
    let body =
        json!({ "document": serde_json::from_str::<Value>(&says("x", "y")).unwrap(), "tenant": "rival" });
    acme.post("/v1/tenants/acme/tools/x/try", &body).await.is_problem(404, "not_found");
    assert_eq!(rival.get(path).await.text, says("own", "RIVAL-ONLY"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_learns_nothing_of_others_from_what_is_wrong() {
    let world = World::new().await;
    write(&world, "tools/word.json", &says("word", "x"));
    let agent = calls("speaker", "word").replace("[tools]", "[tools]\n# SECRET-PROMPT");
    write(
        &world,
        "agents/speaker.toml",
        &agent.replace("tool = \"word\"", "tool = \"word\"\nwith = { secret_argument = 1 }"),
    );
    write(
        &world,
        "tools/word.json",
        &says("word", "x").replace(
            "\"parameters\": []",
            "\"parameters\": [{ \"name\": \"secret_argument\", \"type\": \"integer\" }]",
        ),
    );
    let acme = world.client("acme", OF_TENANT);
    let answer = acme.put("/v1/tenants/acme/tools/word", "json", NEW, &says("word", "y")).await;
    let problem = answer.is_problem(422, "invalid").json();
    assert!(problem["detail"].as_str().unwrap().contains("`speaker`"), "{problem}");
    assert!(!answer.text.contains("secret_argument") && !answer.text.contains("SECRET-PROMPT"), "{answer:?}");
    // A key of all tenants reads why.
    let told = world.all("*").put("/v1/tenants/acme/tools/word", "json", NEW, &says("word", "y")).await;
    assert!(told.text.contains("secret_argument"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_document_is_refused_and_the_next_request_is_answered() {
    let world = World::new().await;
    let all = world.all("*");
    let nested = format!("{{\"name\":\"x\",\"description\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let large = says("x", &"y".repeat(4 << 20));
    let medium = says("x", &"y".repeat(257 << 10));
    let json = [("content-type", "application/json"), NEW];
    let toml = [("content-type", "application/toml"), NEW];
    let deep_toml = format!("name = \"x\"\na = {}1{}\n", "[".repeat(200), "]".repeat(200));
    let dotted = format!("name = \"x\"\n{} = 1\n", vec!["a"; 4_000].join("."));
    let cases: Vec<(&str, &str, Vec<u8>, u16)> = vec![
        ("nested", "/v1/tools/x", nested.into_bytes(), 400),
        ("4 MiB", "/v1/tools/x", large.into_bytes(), 413),
        ("more than 256 KiB", "/v1/tools/x", medium.into_bytes(), 413),
        ("a NUL", "/v1/tools/x", says("x", "a\0b").replace("\\u0000", "\0").into_bytes(), 422),
        ("bad UTF-8", "/v1/tools/x", b"{\"name\":\"x\xff\xfe\"}".to_vec(), 400),
        ("nothing", "/v1/tools/x", Vec::new(), 422),
        ("a list", "/v1/tools/x", b"[]".to_vec(), 422),
        ("another name", "/v1/tools/x", says("y", "z").into_bytes(), 422),
        ("a name of the engine", "/v1/tools/memory", says("memory", "z").into_bytes(), 422),
        ("TOML in TOML", "/v1/agents/x", deep_toml.into_bytes(), 422),
        ("a key of many parts", "/v1/agents/x", dotted.into_bytes(), 422),
        ("another agent", "/v1/agents/x", b"name = \"y\"\n[[steps]]\nrespond = \"x\"\n".to_vec(), 422),
        ("no TOML", "/v1/agents/x", b"\0\0\0".to_vec(), 422),
        ("another tenant", "/v1/tenants/x", b"name = \"acme\"\n".to_vec(), 422),
        (
            "a secret in clear",
            "/v1/tenants/x",
            b"name = \"x\"\n[secrets]\na = \"hunter2hunter2\"\n".to_vec(),
            422,
        ),
    ];
    for (what, path, body, status) in cases {
        let headers = if path.starts_with("/v1/tools") { &json } else { &toml };
        let answer = all.send("PUT", path, headers, &body).await;
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        assert!(!answer.text.contains("hunter2"), "{what}: {answer:?}");
        assert!(answer.text.len() < 200_000, "{what}: {} bytes", answer.text.len());
    }
    // Names that are parts of paths are names of nothing.
    for name in ["..%2Fx", "%2e%2e", "x%2F..%2Fy", "%00", "X", "a.b", "%C3%A9", &"a".repeat(65)] {
        for path in ["/v1/tools/", "/v1/agents/", "/v1/tenants/", "/v1/tenants/acme/tools/"] {
            let headers = if path.ends_with("tools/") { &json } else { &toml };
            let answer = all.send("PUT", &format!("{path}{name}"), headers, says("x", "y").as_bytes()).await;
            assert!([400, 404].contains(&answer.status), "{path}{name}: {answer:?}");
        }
    }
    all.send("PUT", "/v1/tools/x", &[("content-type", "text/plain"), NEW], b"{}")
        .await
        .is_problem(415, "bad_request");
    assert!(!world.root().join(".dalsegno/catalogue.db").exists(), "nothing was written");
    assert_eq!(all.put("/v1/tools/x", "json", NEW, &says("x", "y")).await.status, 201);
    assert_eq!(std::fs::read_dir(world.root().join("tenants")).unwrap().count(), 2);
}
