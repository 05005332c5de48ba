//! `probe`: tries what it was not granted, and says what came of it. For tests of the host; nobody should deploy it.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig};
use rmcp::{Json, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a tool takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct Target {
    /// A path, a name, an address or a number, as the tool wants it.
    #[serde(default)]
    at: String,
}

/// What came of it.
#[derive(Debug, Serialize, JsonSchema)]
struct Found {
    /// Whether it went through.
    open: bool,
    /// What was found, or why not.
    what: String,
}

fn found(result: Result<String, String>) -> Json<Found> {
    Json(match result {
        Ok(what) => Found { open: true, what },
        Err(what) => Found { open: false, what },
    })
}

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";

struct ProbeServer;

#[tool_router]
impl ProbeServer {
    /// Lists environment variables and arguments.
    #[tool]
    fn environment(&self) -> Json<Found> {
        let variables: Vec<String> =
            std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
        let arguments = std::env::args().count();
        found(Ok(format!("{} / {arguments} arguments", variables.join(","))))
    }

    /// Reads the wall clock, in seconds.
    #[tool]
    fn clock(&self) -> Json<Found> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        found(now.map(|now| now.as_secs().to_string()).map_err(|error| error.to_string()))
    }

    /// Gets random numbers: the keys of a hash map.
    #[tool]
    fn random(&self) -> Json<Found> {
        use std::hash::{BuildHasher, RandomState};
        found(Ok(RandomState::new().hash_one(0).to_string()))
    }

    /// Reads a file.
    #[tool]
    fn read(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        found(std::fs::read_to_string(&target.at).map_err(|error| error.to_string()))
    }

    /// Writes a file.
    #[tool]
    fn write(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        found(std::fs::write(&target.at, "probe").map(|()| String::new()).map_err(|error| error.to_string()))
    }

    /// Resolves a name.
    #[tool]
    fn resolve(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        let addresses = (target.at.as_str(), 80).to_socket_addrs();
        found(
            addresses
                .map(|found| format!("{:?}", found.collect::<Vec<_>>()))
                .map_err(|error| error.to_string()),
        )
    }

    /// Connects to an address.
    #[tool]
    fn connect(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        let connected = target.at.parse().map_err(|_| "not an address".to_owned()).and_then(|address| {
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).map_err(|error| error.to_string())
        });
        found(connected.and_then(|mut stream| {
            let mut answer = String::new();
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
            stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
            Ok(answer)
        }))
    }

    /// Opens a datagram socket.
    #[tool]
    fn datagram(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        found(UdpSocket::bind(&target.at).map(|_| String::new()).map_err(|error| error.to_string()))
    }

    /// Sleeps in short pieces for so many milliseconds: a loop that yields to the host all the time.
    #[tool]
    fn dawdle(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        let until = Instant::now() + Duration::from_millis(target.at.parse().unwrap_or(3_600_000));
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        found(Ok(String::new()))
    }

    /// Takes so many mebibytes and keeps them until its end.
    #[tool]
    fn hoard(&self, Parameters(target): Parameters<Target>) -> Json<Found> {
        let mebibytes: usize = target.at.parse().unwrap_or(usize::MAX);
        let mut taken = 0;
        while taken < mebibytes {
            std::mem::forget(std::hint::black_box(vec![1_u8; 1024 * 1024]));
            taken += 1;
        }
        found(Ok(taken.to_string()))
    }

    /// Shows a picture.
    #[tool]
    fn picture(&self) -> CallToolResult {
        CallToolResult::success(vec![ContentBlock::text("a pixel"), ContentBlock::image(PIXEL, "image/png")])
    }

    /// Writes to standard error without end.
    #[tool]
    fn lament(&self) -> Json<Found> {
        loop {
            // Nobody is there to be told that it failed.
            let _ = std::io::stderr().write_all(&[b'o'; 4096]);
        }
    }
}

#[tool_handler]
impl ServerHandler for ProbeServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("probe", env!("CARGO_PKG_VERSION")))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stdio::serve(ProbeServer)
}
