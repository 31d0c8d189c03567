#include "tests/support/ledger_names.hpp"

namespace wltest {

using namespace warpline::dual_gemm;

vgpu::check::LedgerNames ledger_names(const Row& row) {
  vgpu::check::LedgerNames names;
  auto number = [&](const char* name, int64_t value) { names[name] = std::to_string(value); };
  number("STAGES", row.stages);
  number("SPLIT_K", row.split_k);
  if (std::string(row.target) == "sm_100f") {
    const int drain_warps = row.epilogue == Epilogue::ping_pong ? 4 : 8;
    number("ACC_STAGES", row.acc_stages);
    number("CLUSTER_CTAS", row.cluster[0]);
    number("RELEASES", row.cluster_m / row.cta_group + row.cluster_n - 1);
    number("DRAINS", drain_warps * row.cta_group);
    number("READERS", 3 + drain_warps);
    number("FULL", row.cta_group * sm100_stage_bytes(row.cta_group, row.tile_n));
    number("EXCHANGE_BYTES", sm100_exchange_bytes(row.split_k));
    number("TILE_RING", sm100_tile_ring(row.grid));
    number("QUERIES", sm100_queries(row.grid));
  } else if (row.fused()) {
    const int tiles = sm90_small_mma_columns(row.tile_m) / 8;
    const int first_consumer = 1 + sm90_small_decoders(row.tile_m);
    number("COLUMNS", row.tile_n);
    number("G", row.tile_n / 16);
    number("T", tiles);
    number("F", first_consumer);
    number("R", sm90_small_token_stages(row.tile_m));
    names["set"] = std::to_string(first_consumer) + "-";
  } else {
    const int groups = row.tile_n / 32, part = row.tile_m / 8 / row.split_k;
    number("G", groups);
    number("ROWS", row.cluster[0] / row.split_k);
    number("CHUNKS", row.split_k == 1 ? 0 : part <= 4 ? 1 : part / 4);
    number("sums", (part < 4 ? part : 4) * groups * 2048);
    number("tokens", row.tile_m);
    number("weights", sm90_stage_bytes(0, row.tile_n));
    names["set"] = names["each row's set"] = "4-";
  }
  return names;
}

std::string names_text(const vgpu::check::LedgerNames& names) {
  std::string text;
  for (const auto& [name, value] : names) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

} // namespace wltest
