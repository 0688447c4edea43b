//! Every file and test that `docs/internals/requirements.md` names exists.
