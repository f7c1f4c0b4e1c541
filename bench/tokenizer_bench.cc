// tokenizer_bench MODEL_DIR TEXTS.jsonl IDS.bin [RUNS]: how fast the tokenizer of a model loads and encodes. Each line
// of the texts is {"name", "texts": [...]}; a JSON line comes out for each, and all ids of the first run go into the
// file. bench/tokenizer_bench.py makes the texts and puts other libraries beside it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename Work>
json timed(int runs, const Work& work) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) seconds.push_back(seconds_of(work));
  std::sort(seconds.begin(), seconds.end());
  return {{"median", seconds[seconds.size() / 2]}, {"min", seconds.front()}, {"max", seconds.back()}};
}

void encode_by_threads(const fathom::Tokenizer& tokenizer, const Texts& texts, std::size_t threads) {
  std::vector<std::thread> pool;
  for (std::size_t first = 0; first < threads; ++first)
    pool.emplace_back([&, first] {
      for (std::size_t i = first; i < texts.size(); i += threads) tokenizer.encode(texts[i]);
    });
  for (std::thread& thread : pool) thread.join();
}

void measure(const fathom::Tokenizer& tokenizer, const json& group, std::ofstream& ids_out, int runs) {
  const auto texts = group.at("texts").get<Texts>();
  for (const std::string& text : texts) {
    const std::vector<int> ids = tokenizer.encode(text);
    ids_out.write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size() * sizeof(int)));
  }
  json row{{"name", group.at("name")}};
  row["one_thread"] = timed(runs, [&] { encode_by_threads(tokenizer, texts, 1); });
  const std::size_t cores = std::thread::hardware_concurrency();
  if (texts.size() > 1) row["all_threads"] = timed(runs, [&] { encode_by_threads(tokenizer, texts, cores); });
  std::printf("%s\n", row.dump().c_str());
}

void run(int argc, char** argv) {
  CHECK(argc == 4 || argc == 5, "usage: tokenizer_bench MODEL_DIR TEXTS.jsonl IDS.bin [RUNS]");
  const int runs = argc == 5 ? std::stoi(argv[4]) : 5;
  const auto tokenizer = fathom::Tokenizer::load(argv[1]);
  const json load = timed(runs, [&] { fathom::Tokenizer::load(argv[1]); });
  std::printf("%s\n", json{{"name", "load"}, {"one_thread", load}}.dump().c_str());
  std::ifstream in(argv[2]);
  std::ofstream ids_out(argv[3], std::ios::binary);
  CHECK(in && ids_out, "cannot open {} or {}", argv[2], argv[3]);
  for (std::string line; std::getline(in, line);) measure(tokenizer, json::parse(line), ids_out, runs);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
