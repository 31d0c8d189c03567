#include "tools/cli/dual_gemm_files.hpp"

namespace warpline::cli {

FileProblem read_problem(const std::string& path) {
  ProductFile file(path, {"a", "b1", "b2", "a_scale", "b1_scale", "b2_scale", "alpha1", "alpha2",
                          "a_tensor_scale", "b1_tensor_scale", "b2_tensor_scale"});
  FileProblem result;
  wltest::Problem& p = result.problem;
  p.a = file.read_a();
  p.b1 = file.read_b("b1");
  p.b2 = file.read_b("b2");
  const float of_a = file.factor("a_tensor_scale");
  p.alpha1 = file.factor("alpha1") * of_a * file.factor("b1_tensor_scale");
  p.alpha2 = file.factor("alpha2") * of_a * file.factor("b2_tensor_scale");
  p.m = p.a.rows;
  p.n = p.b1.rows;
  p.k = p.a.k;
  p.l = p.a.l;
  result.batched = file.batched();
  if (p.b2.rows != p.n)
    file.refuse("tensor \"b2\" has " + std::to_string(p.b2.rows) + " rows, \"b1\" has " +
                std::to_string(p.n) + ": they must be equal");
  result.unused = file.unused();
  return result;
}

void write_problem(const std::string& path, const wltest::Problem& p) {
  const bool batched = p.l > 1;
  std::vector<OutputTensor> tensors;
  tensors.push_back({"alpha1", "F32", {1}, &p.alpha1, sizeof p.alpha1});
  tensors.push_back({"alpha2", "F32", {1}, &p.alpha2, sizeof p.alpha2});
  add_operand(&tensors, "a", batched, p.a);
  add_operand(&tensors, "b1", batched, p.b1);
  add_operand(&tensors, "b2", batched, p.b2);
  write_safetensors(path, tensors, {{"format", "nvfp4"}, {"producer", "warpline make-example"}});
}

} // namespace warpline::cli
