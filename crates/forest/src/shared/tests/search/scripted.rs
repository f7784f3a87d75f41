//! A kind of forest whose documents say themselves which fingerprints they have and which texts they agree with.

use spinney_text::fingerprint::Fingerprint;
use spinney_text::method::{Durable, FeatureQuery, Features, MethodKind, Proof, Refusal, StrictFeatures, take};
use spinney_text::text::boilerplate::PendingSentences;

/// Documents by a script. Their features are those of the strict rules, of which the last fingerprint carries the
/// script: see [`features`].
#[derive(Debug)]
pub(super) enum Scripted {}

/// Which text it is, and the texts whose trees refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptedProof {
    text: u8,
    apart: u8,
    whole: Fingerprint,
}

/// `apart`: a bit for each text that does not agree.
pub(super) fn features(fingerprints: &[u64], whole: u64, text: u8, apart: u8, take: usize) -> Features {
    let script = u64::from_be_bytes([0, 0, 0, 0, 0, text, apart, take as u8]);
    let fingerprints = fingerprints.iter().chain([&script]).copied().map(Fingerprint);
    Features::Strict(StrictFeatures { fingerprints: fingerprints.collect(), whole: Fingerprint(whole) })
}

impl Proof for ScriptedProof {
    type Thresholds = ();

    fn is_of_text(&self, whole: Fingerprint) -> bool {
        self.whole == whole
    }

    fn agrees(&self, root: &ScriptedProof, _: usize, (): ()) -> Result<(), Refusal> {
        match self.apart & 1 << root.text {
            0 => Ok(()),
            _ => Err(Refusal::Boilerplate),
        }
    }
}

impl Durable for ScriptedProof {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.text, self.apart]);
        self.whole.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<ScriptedProof> {
        let [text, apart] = take(bytes)?;
        Some(ScriptedProof { text, apart, whole: Fingerprint::read(bytes)? })
    }
}

impl MethodKind for Scripted {
    type Features = StrictFeatures;
    type Proof = ScriptedProof;
    type Learned = ();

    fn features(features: &mut Features) -> Option<&mut StrictFeatures> {
        match features {
            Features::Strict(features) => Some(features),
            _ => None,
        }
    }

    fn ask<R>(
        features: &mut StrictFeatures,
        (): &mut (),
        _: &PendingSentences,
        ask: impl FnOnce(&FeatureQuery<'_, ScriptedProof>) -> R,
    ) -> R {
        let (script, fingerprints) = features.fingerprints.split_last().unwrap();
        let [.., text, apart, take] = script.0.to_be_bytes();
        ask(&FeatureQuery {
            fingerprints,
            more: &[],
            whole: features.whole,
            known_by: fingerprints,
            proof: &ScriptedProof { text, apart, whole: features.whole },
            tokens: &[],
            learned: Default::default(),
            take: usize::from(take),
            known_by_whole: false,
            earlier: None,
        })
    }
}
