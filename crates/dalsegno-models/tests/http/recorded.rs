//! A recording of a live model holds no key, and replays without one.

use std::sync::Arc;

use dalsegno_models::{Cassette, Model, Recorder, Recording, Wire};
use serde_json::json;

use crate::double::{Answer, Double};
use crate::requests::{KEY, hello, model, plain};

#[tokio::test]
async fn a_key_does_not_get_into_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    for wire in Wire::ALL {
        let path = folder.path().join(wire.provider());
        let double = Double::start([Answer::of(wire, hello(wire), 64)]).await;
        let recorder = Recorder::new(Arc::new(model(wire, &double)), Recording::open(&path).unwrap());
        let request = plain(json!([{"user": "hi"}]));
        let reply = recorder.complete(&request, &()).await.unwrap();
        assert!(format!("{:?}", double.only().headers).contains(KEY), "the key was used");
        assert!(!std::fs::read_to_string(&path).unwrap().contains(KEY));
        assert_eq!(Cassette::open(&path).unwrap().complete(&request, &()).await.unwrap(), reply);
    }
}
