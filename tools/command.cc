#include "tools/command.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace fathom {
namespace {

constexpr const char* kNotEmpty = "not empty";

CLI::Validator not_empty() {
  return {[](std::string& text) { return text.empty() ? std::string("must not be empty") : std::string(); }, "",
          kNotEmpty};
}

// CLI11 alone takes 010 for 8, -1 for 2^64 - 1 and what is too large for the largest number.
template <typename T>
CLI::Validator whole_number() {
  return {[](std::string& text) {
            T value = 0;
            const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error == std::errc::result_out_of_range) return fmt::format("'{}' is too large", text);
            if (error != std::errc() || stop != text.data() + text.size())
              return fmt::format("'{}' must be a whole number{}", text, std::is_unsigned_v<T> ? " from 0 on" : "");
            text = std::to_string(value);
            return std::string();
          },
          ""};
}

}  // namespace

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

Flag& Flag::may_be_empty() {
  option_->get_validator(kNotEmpty)->active(false);
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
        return number && good(static_cast<float>(value)) ? std::string() : fmt::format("'{}' must be {}", text, rule);
      },
      ""));
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::needs(const Flag& other) {
  option_->needs(other.option_);
  return *this;
}

Command::Command(CLI::App& app, const std::string& name, const std::string& help)
    : command_(app.add_subcommand(name, help)) {}

template <typename T>
Flag Command::option(const std::string& name, T& value, const std::string& help) {
  CLI::Option* option = command_->add_option(name, value, help);
  if constexpr (std::is_same_v<T, std::vector<i64>>) {
    option->delimiter(',')->transform(whole_number<i64>());
  } else if constexpr (std::is_integral_v<T>) {
    option->transform(whole_number<T>());
  } else if constexpr (!std::is_floating_point_v<T>) {
    option->transform(not_empty());
  }
  return Flag(option);
}
template Flag Command::option(const std::string&, std::string&, const std::string&);
template Flag Command::option(const std::string&, int&, const std::string&);
template Flag Command::option(const std::string&, i64&, const std::string&);
template Flag Command::option(const std::string&, std::uint64_t&, const std::string&);
template Flag Command::option(const std::string&, float&, const std::string&);
template Flag Command::option(const std::string&, double&, const std::string&);
template Flag Command::option(const std::string&, std::vector<i64>&, const std::string&);
template Flag Command::option(const std::string&, std::vector<std::string>&, const std::string&);

Flag Command::flag(const std::string& name, bool& value, const std::string& help) {
  return Flag(command_->add_flag(name, value, help));
}

void Command::run(std::function<void()> action) { command_->callback(std::move(action)); }

}  // namespace fathom
