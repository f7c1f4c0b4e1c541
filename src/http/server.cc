#include "http/server.h"

#include <sys/resource.h>

#include <map>
#include <thread>

#include "base/check.h"
#include "base/threads.h"
#include "http/connection.h"

namespace fathom::http {

using SecureStream = asio::ssl::stream<tcp::socket>;

std::string_view Request::header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& one) { return one.first == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

struct Server::State {
  Site site;
  std::mutex mutex;
  std::map<std::string, int> clients;  // connections of each address
  asio::io_context io;                 // its end ends the connections, which use all above
  std::optional<asio::ssl::context> tls;
  tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  std::vector<std::thread> threads;

  State(const ServerOptions& options, Handler handler, Refuse refuse)
      : site{options, std::move(handler), std::move(refuse)} {}

  void load_certificate();
  void listen();
  void accept();
  void admit(tcp::socket socket);
};

namespace {

// Each stream is a descriptor: as many as the system allows.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void Server::State::load_certificate() {
  const ServerOptions& options = site.options;
  CHECK(options.tls_certificate.empty() == options.tls_key.empty(), "TLS needs both a certificate and its key");
  if (options.tls_certificate.empty()) return;
  tls.emplace(asio::ssl::context::tls_server);
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                   asio::ssl::context::no_tlsv1_1);
  error_code error;
  tls->use_certificate_chain_file(options.tls_certificate, error);
  CHECK(!error, "{} is not a certificate in PEM form: {}", options.tls_certificate, error.message());
  tls->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  CHECK(!error, "{} is not the key, in PEM form, of the certificate {}: {}", options.tls_key, options.tls_certificate,
        error.message());
}

void Server::State::listen() {
  const ServerOptions& options = site.options;
  error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  CHECK(!error, "cannot listen on {}: {}", options.host, error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  CHECK(!error, "cannot listen on {} port {}: {}; choose another with --port", options.host, options.port,
        error.message());
}

void Server::State::accept() {
  acceptor.async_accept(asio::make_strand(io), [this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      admit(std::move(socket));
      return accept();
    }
    pause.expires_after(std::chrono::milliseconds(100));  // no descriptor is free: some connection will end
    pause.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  });
}

void Server::State::admit(tcp::socket socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  if (error) return;
  socket.set_option(tcp::no_delay(true), error);
  const std::string peer = endpoint.address().to_string();
  bool full = site.connections >= site.options.max_connections;
  {
    const std::unique_lock lock(mutex);
    const int mine = ++clients[peer];
    full = full || (site.options.max_connections_per_client > 0 && mine > site.options.max_connections_per_client);
  }
  const auto over = [this, peer] {
    const std::unique_lock lock(mutex);
    if (--clients[peer] == 0) clients.erase(peer);
  };
  const auto begin = [full](const auto& connection) { full ? connection->turn_away() : connection->start(); };
  if (tls) {
    begin(std::make_shared<Connection<SecureStream>>(SecureStream(std::move(socket), *tls), peer, site, over));
  } else {
    begin(std::make_shared<Connection<tcp::socket>>(std::move(socket), peer, site, over));
  }
}

Server::Server(const ServerOptions& options, Handler handler, Refuse refuse)
    : state_(std::make_unique<State>(options, std::move(handler), std::move(refuse))) {
  raise_descriptor_limit();
  state_->load_certificate();
  state_->listen();
  state_->accept();
  state_->threads = start_threads(options.threads, [io = &state_->io] { io->run(); });
}

Server::~Server() { stop(); }

void Server::stop() {
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

int Server::port() const { return state_->acceptor.local_endpoint().port(); }
int Server::answering() const { return state_->site.answering; }
int Server::connections() const { return state_->site.connections; }

}  // namespace fathom::http
