"""The adapters inside the real libraries, on tiny random models."""

from __future__ import annotations

import numpy as np
import pytest

from paredown import PareError, Recorder
from paredown.adapters import RecordingMixin, fit_recorded, recording_callback, with_indices

N, CLASSES, EPOCHS = 24, 3, 3


@pytest.fixture
def data(rng):
    labels = rng.integers(0, CLASSES, N)
    return (rng.normal(size=(N, 4)) + labels[:, None]).astype(np.float32), labels


@pytest.fixture
def torch(one_torch_thread):
    """torch, beside a torchvision that Lightning and transformers import and that may not fit it."""
    from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision

    import_torchvision()
    import torch

    return torch


def test_items_carry_their_index(torch, data):
    features, labels = data
    pairs = torch.utils.data.TensorDataset(torch.tensor(features), torch.tensor(labels))
    loader = torch.utils.data.DataLoader(with_indices(pairs), batch_size=7, shuffle=True)
    seen = []
    for x, y, index in loader:
        np.testing.assert_array_equal(x, features[index])
        np.testing.assert_array_equal(y, labels[index])
        seen += index.tolist()
    assert sorted(seen) == list(range(N))
    assert with_indices([{"x": 1}, {"x": 2}])[1] == {"x": 2, "index": 1}
    assert with_indices("ab")[1] == ("b", 1)
    with pytest.raises(PareError, match="needs a data set with a length and numbered items, got generator"):
        with_indices(_ for _ in range(3))  # type: ignore[arg-type]


# --- Lightning ------------------------------------------------------------------------------------------------------


@pytest.fixture
def fit(torch, data, tmp_path):
    """Train a linear model in Lightning; training_step returns what `output` makes of its loss and logits."""
    import lightning.pytorch as lightning

    features, labels = data

    class Linear(lightning.LightningModule):
        def __init__(self, output) -> None:
            super().__init__()
            self.layer, self.output, self.shown = torch.nn.Linear(4, CLASSES), output, []

        def training_step(self, batch, batch_idx):
            x, y, index = batch
            logits = self.layer(x)
            self.shown.append((index, logits.detach().clone(), self.current_epoch))
            return self.output(torch.nn.functional.cross_entropy(logits, y), logits)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def run(callback, output=lambda loss, logits: {"loss": loss, "logits": logits}):
        pairs = torch.utils.data.TensorDataset(torch.tensor(features), torch.tensor(labels))
        loader = torch.utils.data.DataLoader(with_indices(pairs), batch_size=10, shuffle=True)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        quiet |= {"enable_model_summary": False, "accelerator": "cpu", "default_root_dir": tmp_path}
        model = Linear(output)
        lightning.Trainer(max_epochs=EPOCHS, callbacks=[callback], **quiet).fit(model, loader)
        return model.shown

    return run


@pytest.mark.filterwarnings("ignore")  # Lightning's advice on workers and logging, and deprecations of its own
def test_lightning_callback_records_what_the_model_saw(fit, data):
    rec, by_hand = Recorder(N, CLASSES), Recorder(N, CLASSES)
    shown = fit(recording_callback(rec))
    for index, logits, epoch in shown:
        by_hand.update(index, logits, data[1][index], epoch)
    assert rec.coverage().epochs == {0: dict.fromkeys(range(EPOCHS), N)}
    for metric in ("el2n", "forgetting", "aum"):
        np.testing.assert_array_equal(rec.scores(metric), by_hand.scores(metric))


@pytest.mark.filterwarnings("ignore")
def test_lightning_mistakes_are_answered(fit):
    with pytest.raises(PareError, match="does not return its logits"):
        fit(recording_callback(Recorder(N, CLASSES)), output=lambda loss, logits: loss)


def test_batches_of_other_shapes():
    callback = recording_callback(Recorder(4, 2))
    trainer = type("Trainer", (), {"current_epoch": 0})()
    outputs = {"logits": np.array([[1.0, 0.0]])}
    callback.on_train_batch_end(trainer, None, outputs, {"index": [1], "labels": [0]}, 0)
    with pytest.raises(PareError, match="cannot find indices and labels in the batch"):
        callback.on_train_batch_end(trainer, None, outputs, np.zeros(3), 1)
    rec = Recorder(4, 2)
    callback = recording_callback(rec, read=lambda batch: (batch["where"], batch["what"]))
    callback.on_train_batch_end(trainer, None, outputs, {"where": [3], "what": [1]}, 0)
    assert rec.scores("el2n", unseen="drop").ids.tolist() == [3]


# --- Hugging Face ---------------------------------------------------------------------------------------------------


@pytest.fixture
def hugging_face(torch, tmp_path, rng):
    """A function that trains a tiny random BERT with a recording Trainer."""
    import transformers

    labels = rng.integers(0, CLASSES, N)
    tokens = rng.integers(5, 20, (N, 6))
    items = [{"input_ids": tokens[i], "attention_mask": np.ones(6, int), "labels": int(labels[i])} for i in range(N)]
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=20, num_labels=CLASSES, max_position_embeddings=8, **size)

    class RecordingTrainer(RecordingMixin, transformers.Trainer):
        shown: list

        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
            if model.training:
                self.shown.append((inputs["index"], outputs.logits.detach().clone()))
            return (loss, outputs) if return_outputs else loss

    def run(recorder, **arguments):
        quiet = {
            "report_to": "none",
            "save_strategy": "no",
            "use_cpu": True,
            "disable_tqdm": True,
            "logging_steps": 100,
        }
        arguments = quiet | {"remove_unused_columns": False, "per_device_train_batch_size": 5} | arguments
        trainer = RecordingTrainer(
            model=transformers.BertForSequenceClassification(config),
            args=transformers.TrainingArguments(str(tmp_path), num_train_epochs=EPOCHS, **arguments),
            train_dataset=with_indices(items),
            eval_dataset=items,
            recorder=recorder,
        )
        trainer.shown = []
        trainer.train()
        trainer.evaluate()
        return trainer.shown, labels

    return run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_hugging_face_trainer_records_what_the_model_saw(hugging_face, accumulate):
    rec, by_hand = Recorder(N, CLASSES), Recorder(N, CLASSES)
    shown, labels = hugging_face(rec, gradient_accumulation_steps=accumulate)
    batches = len(shown) // EPOCHS
    for number, (index, logits) in enumerate(shown):
        by_hand.update(index, logits, labels[index], number // batches)
    assert rec.coverage().epochs == {0: dict.fromkeys(range(EPOCHS), N)}  # evaluation is not recorded
    for metric in ("el2n", "forgetting", "aum"):
        np.testing.assert_array_equal(rec.scores(metric), by_hand.scores(metric))


@pytest.mark.filterwarnings("ignore")
def test_hugging_face_mistakes_are_answered(hugging_face):
    with pytest.raises(PareError, match=r"no 'index'.*remove_unused_columns=False"):
        hugging_face(Recorder(N, CLASSES), remove_unused_columns=True)


# --- scikit-learn ---------------------------------------------------------------------------------------------------


def test_scikit_learn_records_after_every_epoch(data):
    from sklearn.linear_model import SGDClassifier

    x, y = data
    names = np.array(["cat", "dog", "eel"])[y]
    twin = SGDClassifier(loss="log_loss", random_state=0)
    rec = fit_recorded(SGDClassifier(loss="log_loss", random_state=0), x, names, epochs=EPOCHS, batch_size=5, seed=3)
    rng = np.random.default_rng(3)
    for _ in range(EPOCHS):
        order = rng.permutation(N)
        for start in range(0, N, 5):
            rows = order[start : start + 5]
            twin.partial_fit(x[rows], names[rows], classes=["cat", "dog", "eel"])
    expected = np.linalg.norm(twin.predict_proba(x) - np.eye(3)[y], axis=1)
    np.testing.assert_allclose(rec.scores("el2n"), expected, atol=1e-6)  # float32 probabilities
    assert rec.coverage().epochs == {0: dict.fromkeys(range(EPOCHS), N)}


def test_scikit_learn_without_probabilities(data):
    from sklearn.linear_model import Perceptron, SGDClassifier
    from sklearn.tree import DecisionTreeClassifier

    x, y = data
    for classes in (2, 3):
        model = Perceptron(random_state=0)
        rec = fit_recorded(model, x, np.minimum(y, classes - 1), epochs=2)
        wrong = model.predict(x) != np.minimum(y, classes - 1)
        np.testing.assert_array_equal(np.asarray(rec.scores("margin")) > 0, wrong)
    with pytest.raises(PareError, match="DecisionTreeClassifier has no partial_fit"):
        fit_recorded(DecisionTreeClassifier(), x, y, epochs=1)
    with pytest.raises(PareError, match="must be at least 1, got 0 and 128"):
        fit_recorded(SGDClassifier(), x, y, epochs=0)
