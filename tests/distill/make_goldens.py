"""make_goldens.py > goldens.h - what PyTorch gives in float64 for the runs of test_distill.c: losses of every step, and the weights
of the last layer at the end. Networks and rows come from the same generator as there.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, STEPS, BATCH = 20, 12, 8


def numbers(seed, *shape):
    n, out = 1, []
    for d in shape:
        n *= d
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        out.append((seed >> 7) / 2 ** 23 - 1)
    return torch.tensor(out, dtype=torch.float64).reshape(shape)


def net(seed):
    m = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        for k, p in enumerate(m.parameters()):
            p.copy_(numbers(seed + k, *p.shape))
    return m


def run(make, alpha, temperature, mse=False):
    teacher, student = net(100), net(200)
    x, y = numbers(7, ROWS, 5), torch.arange(ROWS) % 3
    o, losses = make(student.parameters()), []
    at = 0
    for _ in range(STEPS):
        rows = slice(at, min(at + BATCH, ROWS))
        at = 0 if rows.stop == ROWS else rows.stop
        z = student(x[rows])
        with torch.no_grad():
            t = teacher(x[rows])
        kd = F.mse_loss(z, t) if mse else F.kl_div(F.log_softmax(z / temperature, 1), F.softmax(t / temperature, 1),
                                                   reduction="batchmean") * temperature ** 2
        loss = alpha * kd + (1 - alpha) * F.cross_entropy(z, y[rows])
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(float(loss))
    return losses, student[2].weight.detach().reshape(-1).tolist()


CASES = [
    ("VC_OPTIMIZER_ADAM", ".lr = 0.01", lambda p: torch.optim.Adam(p, lr=.01), .9, 4, False),
    ("VC_OPTIMIZER_MOMENTUM", ".lr = 0.05, .weight_decay = 0.01, .nesterov = true",
     lambda p: torch.optim.SGD(p, lr=.05, momentum=.9, nesterov=True, weight_decay=.01), .5, 2, False),
    ("VC_OPTIMIZER_ADAMW", ".lr = 0.02, .weight_decay = 0.1", lambda p: torch.optim.AdamW(p, lr=.02, weight_decay=.1), 0, 2,
     False),
    ("VC_OPTIMIZER_SGD", ".lr = 0.1", lambda p: torch.optim.SGD(p, lr=.1), 1, 1, True),
]


def row(values):
    return "{%s}" % ", ".join("%.17g" % v for v in values)


def main():
    print("/* goldens.h - made by make_goldens.py with PyTorch %s, float64. */" % torch.__version__.split("+")[0])
    print("/* clang-format off */\nstatic const struct golden goldens[] = {")
    for kind, fields, make, alpha, temperature, mse in CASES:
        losses, weights = run(make, alpha, temperature, mse)
        print("    {.optimizer = %s, %s, .alpha = %g, .temperature = %g, .mse = %s,\n     .losses = %s,\n     .weights = %s},"
              % (kind, fields, alpha, temperature, "true" if mse else "false", row(losses), row(weights)))
    print("};\n/* clang-format on */")


main()
