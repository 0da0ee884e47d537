# SPDX-License-Identifier: MIT
"""LeNet as the examples of PaddlePaddle's documentation train it, on random images: fit, by paddle.Model; loop, by hand.

    paddle_examples.py fit|loop
"""
import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader, Dataset
from paddle.metric import Accuracy
from paddle.vision.models import LeNet

EPOCHS, BATCHES, BATCH = 2, 3, 4


class Images(Dataset):
    def __len__(self):
        return BATCHES * BATCH

    def __getitem__(self, i):
        return np.random.default_rng(i).random((1, 28, 28), "float32"), np.array([i % 10], "int64")


class Told(paddle.callbacks.Callback):
    def on_train_batch_end(self, step, logs=None):
        print("batch", step, np.asarray(logs["loss"]).tobytes().hex(), logs["acc"])

    def on_eval_end(self, logs=None):
        print("evaluated", np.asarray(logs["loss"]).tobytes().hex(), logs["acc"])


def fit():
    model = paddle.Model(LeNet())
    model.prepare(paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters()), paddle.nn.CrossEntropyLoss(), Accuracy())
    model.fit(Images(), Images(), epochs=EPOCHS, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Told()])
    answers = model.predict(Images(), batch_size=BATCH, verbose=0)
    print("predicted", sum(a.sum(dtype="float64") for a in answers[0]))


def loop():
    model = LeNet()
    optimizer = paddle.optimizer.Adam(learning_rate=0.001, parameters=model.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
    for epoch in range(EPOCHS):
        model.train()
        for step, (image, label) in enumerate(DataLoader(Images(), batch_size=BATCH)):
            with paddle.amp.auto_cast():
                answer = model(image)
                loss = F.cross_entropy(answer, label)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.clear_grad()
            print("epoch", epoch, "batch", step, float(loss).hex(), float(paddle.metric.accuracy(answer, label)))
        model.eval()
        with paddle.no_grad():
            print("evaluated", *(float(F.cross_entropy(model(image), label)).hex() for image, label in DataLoader(Images(), batch_size=BATCH)))


paddle.seed(7)
{"fit": fit, "loop": loop}[sys.argv[1]]()
print("allocated", paddle.device.cuda.max_memory_allocated())
