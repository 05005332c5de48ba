//! The endpoints that declarative tools call: HTTP answers of every kind, also to requests that were not worked on.

use std::sync::Arc;

use async_trait::async_trait;
use dalsegno_core::EffectClass;
use dalsegno_net::{Carried, HeaderMap, NetError, Request, StatusCode, Transport};
use serde_json::{Value, json};

use crate::process::Process;
use crate::random::Random;
use crate::receiver::{UnderWay, send};
use crate::workspace::{ANSWER_MAX, FOUND_PATH, SECRET};
use crate::world::World;

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Course {
    /// It takes place, and this status says so.
    Done(u16),
    /// It does not take place, and this status says so.
    Refused(u16),
    /// It takes place, and the status speaks of something else: a proxy gave up, a server failed afterwards.
    Hidden(u16),
    /// It takes place, and half of the answer arrives.
    Cut,
    /// It takes place, and the answer is longer than it may be.
    TooLarge,
    /// It takes place, and the connection is lost before the answer.
    Lost,
    /// It does not take place, and the connection is lost.
    LostBefore,
    /// Nobody is there.
    Unreachable,
    /// It takes place, and nothing ever comes back.
    Silent,
}

impl Course {
    /// What can be: everything that a receiver, and whatever stands before it, does to calls of this class.
    fn all(class: EffectClass) -> Vec<Self> {
        let mut all = vec![
            Self::Refused(400),
            Self::Refused(404),
            Self::Lost,
            Self::LostBefore,
            Self::Unreachable,
            Self::Silent,
        ];
        all.extend([429, 408, 409, 500, 502, 503, 504].map(Self::Refused));
        all.extend([408, 409, 500, 502, 504].map(Self::Hidden));
        all.extend([Self::Cut, Self::TooLarge]);
        if class == EffectClass::Unsafe {
            // A proxy passes a call on and then asks to come again.
            all.push(Self::Hidden(503));
        }
        all
    }

    fn name(self) -> String {
        match self {
            Self::Done(status) | Self::Refused(status) | Self::Hidden(status) => status.to_string(),
            Self::Cut => "cut".into(),
            Self::TooLarge => "too large".into(),
            Self::Lost | Self::LostBefore | Self::Silent => "lost".into(),
            Self::Unreachable => "unreachable".into(),
        }
    }

    fn takes_place(self) -> bool {
        !matches!(self, Self::Refused(_) | Self::LostBefore | Self::Unreachable)
    }
}

/// The endpoints, as one process reaches them.
pub(crate) struct SimulatedEndpoints {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
}

#[async_trait]
impl Transport for SimulatedEndpoints {
    async fn carry(&self, request: &Request) -> Result<Carried, NetError> {
        let (world, process) = (&self.world, &self.process);
        process.breathe().await;
        let url = request.url.to_string();
        let path = request.url.path().to_owned();
        let header =
            |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let key = header("idempotency-key");
        let body: Value =
            request.body.as_deref().and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
        if path.starts_with("/locked/")
            && header("authorization").as_deref() != Some(&format!("Bearer {SECRET}"))
        {
            world.judge(|guarantees| guarantees.broken(format!("{path} is called without its secret")));
        }
        let asked = path.strip_prefix(FOUND_PATH);
        let (call, class) = world.judge(|guarantees| match asked {
            Some(asked) => (guarantees.lookup(process, asked), EffectClass::Read),
            None => guarantees.request(process, key.as_deref(), &path, &body),
        });
        let _guard = UnderWay { world: Arc::clone(world), call: call.clone() };
        let name = format!("request {} {path} {}", key.unwrap_or_default(), call.attempt);
        let mut random = Random::new(world.seed, &name);
        let course = if random.chance(world.faults().call_fails) {
            random.pick(&Course::all(class))
        } else {
            Course::Done(if random.chance(300) { 201 } else { 200 })
        };
        let shown = if course == Course::Done(201) { "200".to_owned() } else { course.name() };
        world.count("answer", &shown);
        let (there, back) = match random.below(20) {
            0 => (random.millis(1_500, 15_000), random.millis(0, 100)),
            1..4 => (random.millis(0, 400), random.millis(0, 3_000)),
            _ => (random.millis(0, 30), random.millis(0, 30)),
        };
        if course == Course::Unreachable {
            tokio::time::sleep(there).await;
            process.breathe().await;
            return Err(NetError::Unreachable { url, message: "nobody listens".into() });
        }
        if course.takes_place() {
            let answered = send(&self.world, class, call.clone(), there, back);
            if course == Course::Silent {
                std::future::pending::<()>().await;
            }
            let _ = answered.await;
        } else {
            tokio::time::sleep(there + back).await;
        }
        process.breathe().await;
        match course {
            Course::Lost | Course::LostBefore => {
                Err(NetError::Broken { url, message: "the connection was lost".into() })
            }
            course => {
                let n = &call.arguments["n"];
                let body = match asked {
                    Some(asked) => world.judge(|guarantees| guarantees.found(asked)),
                    None => json!({ "n": n, "receipt": format!("shop {n}") }),
                };
                Ok(answer(course, &body, &mut random))
            }
        }
    }
}

fn answer(course: Course, body: &Value, random: &mut Random) -> Carried {
    let status = match course {
        Course::Done(status) | Course::Refused(status) | Course::Hidden(status) => status,
        _ => 200,
    };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", "application/json".parse().expect("a header"));
    if status == 503 || (status == 429 && random.chance(500)) {
        headers.insert("retry-after", "1".parse().expect("a header"));
    }
    let mut body = body.to_string().into_bytes();
    match course {
        Course::Cut => body.truncate(body.len() / 2),
        Course::TooLarge => body.resize(ANSWER_MAX + 1 + random.below(2_000), b' '),
        _ => {}
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    Carried { status, headers, body, is_cut: course == Course::Cut }
}
