#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <utility>

namespace fathom {

Flag& Flag::required() {
  option_->required();
  return *this;
}

Flag& Flag::shows_default() {
  option_->capture_default_str();
  return *this;
}

Flag& Flag::repeatable() {
  option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Flag& Flag::not_empty() {
  option_->check(CLI::Validator(
      [](const std::string& text) { return text.empty() ? std::string("must not be empty") : std::string(); }, ""));
  return *this;
}

Flag& Flag::range(i64 least, i64 most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Flag& Flag::one_of(std::vector<std::string> names) {
  option_->check(CLI::IsMember(std::move(names)));
  return *this;
}

Flag& Flag::real(const std::string& rule, bool (*good)(double)) {
  option_->check(CLI::Validator(
      [rule, good](const std::string& text) {
        double value = 0;
        const bool number = CLI::detail::lexical_cast(text, value);
        return number && good(value) ? std::string() : fmt::format("'{}' must be {}", text, rule);
      },
      ""));
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Command::Command(CLI::App& app, const std::string& name, const std::string& help)
    : command_(app.add_subcommand(name, help)) {}

template <typename T>
Flag Command::option(const std::string& name, T& value, const std::string& help) {
  return Flag(command_->add_option(name, value, help));
}
template Flag Command::option(const std::string&, std::string&, const std::string&);
template Flag Command::option(const std::string&, int&, const std::string&);
template Flag Command::option(const std::string&, i64&, const std::string&);
template Flag Command::option(const std::string&, std::uint64_t&, const std::string&);
template Flag Command::option(const std::string&, float&, const std::string&);
template Flag Command::option(const std::string&, std::vector<std::string>&, const std::string&);

Flag Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Flag(command_->add_flag(name, value, help));
}

void Command::run(std::function<void()> action) { command_->callback(std::move(action)); }

}  // namespace fathom
