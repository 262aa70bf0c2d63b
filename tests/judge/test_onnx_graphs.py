"""test_onnx_graphs.py - weights in graphs inside nodes of ONNX: what onnx's checker says of them and onnxruntime computes.
What it shares with test_onnx.py it takes from there."""
from judge_support import SMALL, Judge, main, np, sha
import test_onnx
from test_onnx import CLOSE, T, helper, info, model, normal, numpy_helper, run_model, tensor


class Graphs(Judge):
    save = test_onnx.Onnx.save
    opened = test_onnx.Onnx.opened
    near = test_onnx.Onnx.near

    def test_branches_and_bodies(self):
        """A weight that the branches of an If use, weights of the branches, with one name, and of a loop in one."""
        def shaped(name):
            return info(name, [None, 16])

        def branch(name, extra, last):
            h, y = "h_" + name, "y_" + name
            constant = numpy_helper.from_array(normal(name, (16, 16)))
            nodes = [helper.make_node("Constant", [], ["c_" + name], value=constant),
                     helper.make_node("MatMul", ["x", "inner"], [h]), *extra,
                     helper.make_node("MatMul", [last, "w"], ["k_" + name]),
                     helper.make_node("MatMul", ["k_" + name, "c_" + name], [y])]
            return helper.make_graph(nodes, name, [], [shaped(y)],
                                     [tensor("inner", normal("inner" + name, (16, 16)))])

        body = helper.make_graph(
            [helper.make_node("MatMul", ["s", "loop_w"], ["t"]), helper.make_node("Tanh", ["t"], ["s_out"]),
             helper.make_node("Identity", ["go"], ["go_out"])], "body",
            [info("i", [], T.INT64), info("go", [], T.BOOL), shaped("s")],
            [info("go_out", [], T.BOOL), shaped("s_out")], [tensor("loop_w", normal("loop", (16, 16)))])
        loop = [helper.make_node("Loop", ["three", "", "h_b"], ["looped"], name="Loop", body=body)]
        for opset in (17, 9):
            for negate in (False, True):
                nodes = [helper.make_node("Not" if negate else "Identity", ["c"], ["d"]),
                         helper.make_node("If", ["d"], ["y"], name="If", then_branch=branch("a", [], "h_a"),
                                          else_branch=branch("b", loop, "looped"))]
                m = model(nodes, [info("c", [], T.BOOL), shaped("x")], [shaped("y")],
                          [tensor("w", normal("w", (16, 16))), tensor("three", np.array(3, "i8"))], opset)
                before = run_model(self.save(m))
                self.vc("convert", "-f", self.path("in.onnx"), "-o", self.path("same.onnx"))
                self.assertEqual(sha(self.path("same.onnx")), sha(self.path("in.onnx")))
                r = self.vc("quantize", "--int8", *SMALL, "--json", "-f", self.path("in.onnx"), "-o",
                            self.path("out.onnx")).json()
                changed = {t["name"] for t in r["tensors"] if t["action"] == "quantized"}
                self.assertEqual(changed, {"w", "c_a", "c_b", "If/then_branch/inner", "If/else_branch/inner", "loop_w"})
                out = self.opened("out.onnx")
                self.assertEqual({i.name for i in out.graph.initializer}, {"three", "w.int8", "w.scale"})
                inner = [a.g for n in out.graph.node if n.op_type == "If" for a in n.attribute]
                for graph in inner:
                    names = {i.name for i in graph.initializer}
                    self.assertIn("If/%s/inner.int8" % ("then_branch" if graph.name == "a" else "else_branch"), names)
                    self.assertNotIn("inner", names)
                self.vc("dequantize", "-f", self.path("out.onnx"), "-o", self.path("back.onnx"))
                self.opened("back.onnx")
                after = run_model(self.path("out.onnx"))
                self.near(after, run_model(self.path("back.onnx")), 1e-6, "codes and their values")
                self.near(after, before, CLOSE)


if __name__ == "__main__":
    main()
