#pragma once

// build/vgpu speed: warp-instructions a second of four kinds of code, as a table.
int run_speed(unsigned threads);
