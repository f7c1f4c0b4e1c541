// fathom serve: a model behind HTTP.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/threads.h"
#include "http/server.h"
#include "server/routes.h"
#include "session/text_of_model.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/embedded_model.h"
#include "tools/model_flags.h"
#include "tools/output.h"

namespace fathom {
namespace {

struct ServeFlags {
  std::string model, key_file, chat_template;
  std::vector<std::string> keys, names, origins;
  bool open_metrics = false, allow_special = false;
  int grace = 30, body_mib = 32;
  float default_temperature = 1;
  i64 max_queue = 1024;
  http::ServerOptions http;
  ModelFlags run;
};

// Signals that end the program, heard by a thread of its own: the first asks for an end, the second ends at once.
class EndSignals {
 public:
  // To be made before any other thread, which then inherits that signals do not go there.
  EndSignals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGTERM);
    ::sigaddset(&set_, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    start_thread([this] { listen(); }).detach();
  }

  // While `false`, the first signal ends the program too.
  void expected(bool yes) { expected_ = yes; }
  void wait() { asked_.wait(false); }

 private:
  void listen() {
    int signal = 0;
    ::sigwait(&set_, &signal);
    if (!expected_) ::_exit(0);
    asked_ = true;
    asked_.notify_all();
    ::sigwait(&set_, &signal);
    ::_exit(1);
  }

  sigset_t set_{};
  std::atomic<bool> expected_ = false, asked_ = false;
};

std::vector<std::string> read_keys(const ServeFlags& flags) {
  std::vector<std::string> keys = flags.keys;
  if (flags.key_file.empty()) return keys;
  std::ifstream file(flags.key_file);
  CHECK(file.good(), "--api-key-file: cannot read {}", flags.key_file);
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') keys.push_back(line);
  }
  CHECK(!keys.empty(), "--api-key-file: {} holds no key; write one a line", flags.key_file);
  return keys;
}

std::string default_name(const std::string& directory) {
  auto path = std::filesystem::path(directory).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  return name.empty() || name == "." ? "model" : name;
}

void serve(ServeFlags& flags) {
  EndSignals signals;
  const std::string model = flags.model.empty() ? embedded_model() : flags.model;
  if (flags.names.empty()) flags.names = {default_name(model)};
  const std::vector<std::string> keys = read_keys(flags);
  flags.http.max_body_bytes = static_cast<std::size_t>(flags.body_mib) << 20;
  Routes routes({.keys = keys,
                 .cors_origins = flags.origins,
                 .metrics_need_key = !flags.open_metrics,
                 .version = FATHOM_VERSION});
  http::Server server(
      flags.http, [&routes](const auto& exchange) { routes(exchange); },
      [&routes](const http::Request& request, int status, const std::string& message) {
        return routes.refuse(request, status, message);
      });
  const bool secure = !flags.http.tls_certificate.empty();
  print_note("listening on http{}://{}:{}\n", secure ? "s" : "", flags.http.host, server.port());
  const bool local = flags.http.host == "localhost" || flags.http.host == "::1" || flags.http.host.starts_with("127.");
  if (!local && keys.empty())
    print_warning("anyone who reaches this address can use the model; --api-key or --api-key-file asks for a key");

  const ModelSource source = open_named_model(model, flags.run.config);
  Session session = load_session(source, flags.run, [&routes](i64 done, i64 total) { routes.loading(done, total); });
  session.warm_up();
  Service service(
      session, PromptBuilder(session.tokenizer(), load_chat_template(source, flags.chat_template), flags.allow_special),
      {.names = flags.names, .max_queue = flags.max_queue, .default_temperature = flags.default_temperature});
  routes.serve(service);
  print_note("ready: {} as '{}', context of {} tokens\n", source.checkpoint->description(), flags.names.front(),
             session.max_seq_len());

  signals.expected(true);
  signals.wait();
  routes.drain();
  print_note("ending: {} answers under way, at most {} s\n", server.answering(), flags.grace);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(flags.grace);
  while (server.answering() > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server.stop();  // before what its exchanges use goes
}

}  // namespace

void add_serve(CLI::App& app) {
  Command command(app, "serve", "Serve a model over HTTP, in OpenAI's dialect");
  const auto flags = std::make_shared<ServeFlags>();
  command.option("model", flags->model, "Model directory (Hugging Face or converted); else the embedded model");
  command.option("--config", flags->run.config, "Configuration, where the directory has none");
  command.option("--host", flags->http.host, "Address to listen on; 0.0.0.0 for all").shows_default();
  command.option("--port", flags->http.port, "Port to listen on; 0: one that is free").range(0, 65535).shows_default();
  command.option("--api-key", flags->keys, "Key that clients must send; may be given several times").repeatable();
  command.option("--api-key-file", flags->key_file, "File with such keys, one a line");
  command
      .option("--served-model-name", flags->names,
              "Name of the model; may be given several times; else the directory's")
      .repeatable();
  Flag certificate =
      command.option("--tls-cert", flags->http.tls_certificate, "Certificate chain in PEM form: serve HTTPS");
  Flag key = command.option("--tls-key", flags->http.tls_key, "Its key in PEM form");
  certificate.needs(key);
  key.needs(certificate);
  command.option("--cors-origin", flags->origins, "Web page's origin that may ask, or *; may be given several times")
      .repeatable();
  command
      .option("--max-concurrent", flags->run.session.max_batch_size,
              "Requests computed at once; else the configuration's max_batch_size")
      .range(1, i64{1} << 16);
  command.option("--max-queue", flags->max_queue, "Requests that may wait; more are answered with status 429")
      .range(1, i64{1} << 30)
      .shows_default();
  command.option("--max-connections", flags->http.max_connections, "Connections at once")
      .range(1, 1 << 20)
      .shows_default();
  command.option("--max-body", flags->body_mib, "Longest body of a request in MiB").range(1, 1024).shows_default();
  command.option("--default-temperature", flags->default_temperature, "Temperature of requests that name none")
      .real("between 0 and 2", [](double x) { return x >= 0 && x <= 2; })
      .shows_default();
  command.option("--grace", flags->grace, "Seconds for answers under way after SIGTERM")
      .range(0, 86400)
      .shows_default();
  command.flag("--open-metrics", flags->open_metrics, "Serve /metrics without a key");
  command.option("--chat-template", flags->chat_template, "File with a chat template, instead of the model's own");
  command.flag("--allow-special-in-content", flags->allow_special,
               "Let special tokens spelled out in messages act as such");
  add_model_flags(command, flags->run);
  command.run([flags] { serve(*flags); });
}

}  // namespace fathom
