#include "tests/support/ledger_names.hpp"

namespace wltest {

using namespace warpline::gemm;

vgpu::check::LedgerNames ledger_names(const Config& config) {
  vgpu::check::LedgerNames names;
  auto number = [&](const char* name, int64_t value) { names[name] = std::to_string(value); };
  number("STAGES", config.stages);
  number("SPLIT_K", config.split_k);
  if (config.family == Family::sm100) {
    const int drain_warps = config.epilogue == Epilogue::ping_pong ? 4 : 8;
    number("ACC_STAGES", config.acc_stages);
    number("CLUSTER_CTAS", config.cluster[0]);
    number("RELEASES", config.cluster_m / config.cta_group + config.cluster_n - 1);
    number("DRAINS", drain_warps * config.cta_group);
    number("READERS", (sm100_sfa_bytes(config) != 0 ? 3 : 2) + drain_warps);
    number("FILLS",
           (sm100_sfa_bytes(config) != 0 ? 2 : 1) + (config.grouped ? config.cta_group - 1 : 0));
    // Of elements of 8 bits, where types are arguments.
    number("FULL", config.cta_group * (config.kind == Kind::mx
                                           ? sm100_operand_bytes(config.cta_group, config.tile_n) +
                                                 sm100_sfa_bytes(config) + sm100_sfb_bytes(config)
                                           : sm100_stage_bytes(config)));
    number("EXCHANGES", config.split_k > 1);
    number("EXCHANGE_BYTES", sm100_exchange_bytes(config));
    number("TILE_RING", sm100_tile_ring(config.grid));
    number("QUERIES", sm100_queries(config.grid));
  } else if (config.family == Family::sm90_native) {
    number("ROWS", config.cluster[0] / config.split_k);
    const int consumers = config.threads / 128 - 1;
    number("C", consumers);
    number("R", config.ping_pong ? 1 : consumers);
    number("FILLS", config.grouped ? 2 : 1);
    names["FILLERS"] = config.grouped ? "0 (1)" : "0"; // who gathers rows
    number("STAGE_BYTES", sm90_native_stage_bytes(config.turned ? config.columns() : config.tile_m,
                                                  consumers, config.b_tensors));
    number("PIECE", config.turned ? sm90_turned_piece_bytes(config.columns(), config.d_type)
                                  : 64 * (config.d_type == WL_F32 ? 4 : 2) *
                                        sm90_native_piece_tokens(config.tile_m / config.split_k,
                                                                 config.d_type));
    // Sums come by consumers' warps, or of three consumers at once.
    const int parts = config.split_k == 1 ? 0 : consumers == 3 ? 1 : 4 * consumers;
    number("PLACES", sm90_native_places(config));
    number("SPLITS", parts);
    number("sums", parts == 0 ? 0 : 2 * config.tile_m * config.columns() / parts);
  } else if (config.family == Family::sm90_stream) {
    number("LOADED_BYTES", sm90_stream_loaded_bytes(config.tile_m, config.first_types().a));
    number("SUM_BYTES", sm90_stream_sum_bytes(config.tile_m));
  } else if (config.fused()) {
    const int tiles = sm90_small_mma_columns(config.tile_m) / 8;
    const int first_consumer = 1 + config.decoders;
    number("COLUMNS", config.tile_n);
    number("G", config.tile_n / 16);
    number("T", tiles);
    number("SUM_BYTES", sm90_small_sum_bytes(config.tile_m, config.tile_n, config.split_k));
    number("F", first_consumer);
    number("SUMMED", config.summed);
    number("R", sm90_small_token_stages(config.tile_m, config.decoders, config.grouped));
    if (config.grouped) number("TURNS", sm90_turns(config.stages));
    names["set"] = std::to_string(first_consumer) + "-";
  } else {
    const int groups = config.tile_n / 32, part = config.tile_m / 8 / config.split_k;
    number("G", groups);
    number("ROWS", config.spread ? 1 : config.cluster[0] / config.split_k);
    number("SPLITS", config.split_k > 1 && !config.spread);
    number("CHUNKS", config.split_k == 1 || config.spread ? 0 : part <= 4 ? 1 : part / 4);
    number("sums", (part < 4 ? part : 4) * groups * 2048);
    number("tokens", config.tile_m);
    if (config.helped) number("given", config.tile_m / 8 * groups * 2048);
    if (sm90_plane_ring(config.tile_m)) number("PLANES", sm90_planes);
    if (config.grouped && config.later) number("TURNS", sm90_turns(config.stages));
    number("weights", sm90_stage_bytes(0, config.tile_n, config.b_tensors));
    names["set"] = names["each row's set"] = "4-";
    names["0 set"] = "0 4-";
  }
  return names;
}

std::string names_text(const vgpu::check::LedgerNames& names) {
  std::string text;
  for (const auto& [name, value] : names) text += (text.empty() ? "" : ",") + name + "=" + value;
  return text;
}

} // namespace wltest
