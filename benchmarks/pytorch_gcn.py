"""PyTorch baseline of gcn, timed in the same way as Fathom's graph convolutional network.

The network of Kipf and Welling 2017, as in ``fathom/modern/gcn/model.py``, with PyTorch's sparse
products. Matrices take two forms, COO or CSR; both are timed, and the faster one counts. Needs only
PyTorch. The graph is random, with degrees by a power law, and as large as Fathom's.

    python benchmarks/pytorch_gcn.py --mode train --nodes 100000 --edges 1000000 --features 64
"""

import argparse
import sys

import pytorch_program  # before PyTorch: it sets up the allocator
import torch
from program import CANNOT, Step
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

UNITS, DROPOUT, DECAY, RATE = 16, 0.5, 5e-4, 0.01


class GraphNetwork(nn.Module):
    """Two convolutions of constant sparse features on a constant graph.

    Args:
        adjacency: A', sparse [nodes, nodes].
        features: X, sparse [nodes, features].
        classes: of the nodes.
    """

    def __init__(self, adjacency: Tensor, features: Tensor, classes: int) -> None:
        super().__init__()
        self._adjacency, self._features = adjacency, features
        sizes = (features.shape[1], UNITS), (UNITS, classes)
        self.weights = nn.ParameterList(nn.init.xavier_uniform_(torch.empty(s)) for s in sizes)

    def forward(self) -> Tensor:
        """Returns the logits of all nodes: [nodes, classes]."""
        hidden = torch.sparse.mm(self._adjacency, torch.sparse.mm(self._dropped(), self.weights[0]))
        hidden = F.dropout(F.relu(hidden), DROPOUT, self.training)
        return torch.sparse.mm(self._adjacency, hidden @ self.weights[1])

    def _dropped(self) -> Tensor:
        """Returns X with dropout of its non-zero values in training."""
        x = self._features
        if not self.training:
            return x
        values = F.dropout(x.values(), DROPOUT)
        if x.layout is torch.sparse_csr:
            return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)
        return torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True)


def make_graph(args: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Returns A' and X, both COO."""
    weights = (torch.arange(args.nodes) + 1.0) ** -0.5
    weights = weights[torch.randperm(args.nodes)]
    ends = weights.cumsum(0)
    pairs = torch.searchsorted(ends, ends[-1] * torch.rand(2, args.edges)).clamp(max=args.nodes - 1)
    loops = torch.arange(args.nodes).expand(2, -1)
    places = torch.cat([pairs, pairs.flip(0), loops], 1)
    ones = torch.ones(places.shape[1])
    scale = torch.zeros(args.nodes).index_add(0, places[0], ones) ** -0.5
    values = scale[places[0]] * scale[places[1]]
    adjacency = torch.sparse_coo_tensor(places, values, (args.nodes, args.nodes)).coalesce()
    each = torch.arange(args.nodes).repeat_interleave(max(1, args.nonzeros // args.nodes))
    places = torch.stack([each, torch.randint(args.features, each.shape)])
    values = torch.rand(len(each))
    features = torch.sparse_coo_tensor(places, values, (args.nodes, args.features)).coalesce()
    return adjacency, features


def make_step(args: argparse.Namespace, graph: tuple[Tensor, Tensor]) -> Step:
    """Returns a function that runs one step, of which the loss takes some nodes."""
    network = GraphNetwork(*graph, args.classes)
    nodes = torch.randperm(args.nodes)[: args.batch_size]
    classes = torch.randint(args.classes, (args.batch_size,))
    if args.mode == "infer":
        network.eval()
        return pytorch_program.inference(lambda: network()[nodes])
    first, second = network.weights
    groups = [{"params": [first], "weight_decay": DECAY}, {"params": [second]}]
    return pytorch_program.training(
        lambda: F.cross_entropy(network()[nodes], classes),
        torch.optim.Adam(groups, lr=RATE, fused=True),
    )


def forms(args: argparse.Namespace) -> dict[str, tuple[Tensor, Tensor]]:
    """Returns the graph with each form of the sparse matrices."""
    if args.compile:
        print("torch.compile takes no sparse products", file=sys.stderr)
        sys.exit(CANNOT)
    adjacency, features = make_graph(args)
    return {
        "COO": (adjacency, features),
        "CSR": (adjacency.to_sparse_csr(), features.to_sparse_csr()),
    }


if __name__ == "__main__":
    # Its default graph is of Cora's size.
    sizes = {"nodes": 2_708, "edges": 5_278, "features": 1_433, "nonzeros": 49_216, "classes": 7}
    pytorch_program.main(__doc__, make_step, forms, batch_size=140, **sizes)
