// Command: the flags of one command and what it runs. Hides CLI11, whose header takes seconds to compile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/check.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fathom {

// One flag or argument. Its methods return it, so that they can be chained.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag& required();
  // The help shows the value that the variable has now.
  Flag& shows_default();
  // May be given several times, each with one value.
  Flag& repeatable();
  // An empty text is a value like any other.
  Flag& may_be_empty();
  Flag& range(i64 least, i64 most);
  Flag& one_of(std::vector<std::string> names);
  // A real number for which `good`, also as a float; the error says that it must be `rule`.
  Flag& real(const std::string& rule, bool (*good)(double));
  Flag& excludes(const Flag& other);
  Flag& needs(const Flag& other);

 private:
  CLI::Option* option_;
};

class Command {
 public:
  Command(CLI::App& app, const std::string& name, const std::string& help);

  // A flag with a value, or an argument where the name has no dashes. T: string, int, i64, uint64, float, double, a
  // vector of strings (see repeatable) or of i64 (with commas between). Whole numbers are decimal and inside the range
  // of their type; texts are not empty.
  template <typename T>
  Flag option(const std::string& name, T& value, const std::string& help);
  // A flag without a value.
  Flag flag(const std::string& name, bool& value, const std::string& help);
  // What the command does once its flags are read.
  void run(std::function<void()> action);

 private:
  CLI::App* command_;
};

}  // namespace fathom
