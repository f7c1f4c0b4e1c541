// One function a command: it adds its flags to the parser and sets what runs. tools/main.cc holds the list.
#pragma once

namespace CLI {
class App;
}

namespace fathom {

void add_tokenize(CLI::App& app);
void add_render(CLI::App& app);
void add_synth(CLI::App& app);
void add_inspect(CLI::App& app);
void add_generate(CLI::App& app);
void add_chat(CLI::App& app);
void add_serve(CLI::App& app);
void add_convert(CLI::App& app);
void add_fp8_cast(CLI::App& app);
void add_quantize(CLI::App& app);
void add_verify(CLI::App& app);
void add_logits(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace fathom
