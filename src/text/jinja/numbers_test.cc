// Numbers and text, both ways, as Python 3.11 reads and writes them.
#include <gtest/gtest.h>

#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/parse_number.h"
#include "text/jinja/repr.h"

namespace fathom::jinja {
namespace {

class JinjaNumbers : public testing::Test {
 protected:
  Value text(std::string_view bytes) { return make_str(rt_, bytes, false); }
  std::string percent(std::string_view format, const std::vector<Value>& values) {
    List* list = rt_.make<List>();
    for (const Value& value : values) list->push(rt_, value);
    return std::string(percent_format(rt_, *text(format).str, Value::list_of(list, Kind::kTuple)).str->view());
  }
  std::string brace(std::string_view format, const std::vector<Value>& values) {
    return std::string(brace_format(rt_, *text(format).str, {values, {}}).str->view());
  }

  Runtime rt_{Limits{}, ""};
};

TEST_F(JinjaNumbers, FloatsAreAsShortAsTheyCanBe) {
  const std::pair<double, const char*> cases[] = {{0.1, "0.1"},
                                                  {1.0, "1.0"},
                                                  {1e+16, "1e+16"},
                                                  {1000000000000000.0, "1000000000000000.0"},
                                                  {1.2345678901234568e+17, "1.2345678901234568e+17"},
                                                  {1e-05, "1e-05"},
                                                  {0.0001, "0.0001"},
                                                  {-0.0, "-0.0"},
                                                  {5e-324, "5e-324"},
                                                  {1.7976931348623157e+308, "1.7976931348623157e+308"},
                                                  {2.5e-07, "2.5e-07"},
                                                  {0.3333333333333333, "0.3333333333333333"},
                                                  {100.0, "100.0"},
                                                  {INFINITY, "inf"},
                                                  {-INFINITY, "-inf"},
                                                  {std::nan(""), "nan"}};
  for (const auto& [value, written] : cases) EXPECT_EQ(float_text(value), written);
}

TEST_F(JinjaNumbers, IntegersOf128Bits) {
  EXPECT_EQ(int_text(0), "0");
  EXPECT_EQ(int_text(-1), "-1");
  EXPECT_EQ(int_text(Int{1} << 100), "1267650600228229401496703205376");
  EXPECT_EQ(int_text(-(Int{1} << 100) - 1), "-1267650600228229401496703205377");
}

TEST_F(JinjaNumbers, IntReadsWhatPythonReads) {
  struct Case {
    const char* text;
    Int base;
    std::optional<Int> value;
  };
  const Case cases[] = {
      {"12", 10, 12},  {" 1_000 ", 10, 1000},   {"0x1f", 16, 31}, {"zz", 36, 1295}, {"1__0", 10, std::nullopt},
      {"0x1f", 0, 31}, {"", 10, std::nullopt},  {"-7", 10, -7},   {"+5", 10, 5},    {"12a", 10, std::nullopt},
      {"0b11", 2, 3},  {"012", 0, std::nullopt}};
  for (const auto& [digits, base, value] : cases)
    EXPECT_TRUE(parse_int(rt_, *text(digits).str, base) == value) << digits;
}

TEST_F(JinjaNumbers, FloatReadsWhatPythonReads) {
  const std::pair<const char*, std::optional<double>> cases[] = {
      {"1e3", 1000.0},    {"  .5 ", 0.5},       {"infinity", INFINITY}, {"1_0.0", 10.0}, {"1__0", std::nullopt},
      {"", std::nullopt}, {"-1.5E-3", -0.0015}, {"1e", std::nullopt},   {"5.", 5.0}};
  for (const auto& [digits, value] : cases) EXPECT_EQ(parse_float(rt_, *text(digits).str), value) << digits;
}

TEST_F(JinjaNumbers, PercentFormats) {
  EXPECT_EQ(percent("%s|%5s|%-5s|", {text("a"), text("b"), text("c")}), "a|    b|c    |");
  EXPECT_EQ(percent("%d %i %05d %+d", {Value::integer(3), Value::integer(-4), Value::integer(42), Value::integer(7)}),
            "3 -4 00042 +7");
  EXPECT_EQ(percent("%.2f %8.3f %e %g",
                    {Value::real(3.14159), Value::real(2.5), Value::real(12345.678), Value::real(0.0001)}),
            "3.14    2.500 1.234568e+04 0.0001");
  EXPECT_EQ(percent("%x %X %#o %c", {Value::integer(255), Value::integer(255), Value::integer(8), Value::integer(65)}),
            "ff FF 0o10 A");
  EXPECT_EQ(percent("%r %s", {text("it's"), Value::none()}), "\"it's\" None");
  EXPECT_EQ(percent("100%%", {}), "100%");
  EXPECT_EQ(percent("%5.1f|%-8d|", {Value::real(2.25), Value::integer(5)}), "  2.2|5       |");
  EXPECT_EQ(percent("%s", {Value::boolean(true)}), "True");
  EXPECT_EQ(percent("%g %g", {Value::real(1e+20), Value::real(123456.0)}), "1e+20 123456");
}

TEST_F(JinjaNumbers, BraceFormats) {
  EXPECT_EQ(brace("{} {}", {text("a"), Value::integer(1)}), "a 1");
  EXPECT_EQ(brace("{1} {0}", {text("a"), text("b")}), "b a");
  EXPECT_EQ(brace("{:>6}|{:<6}|{:^7}|", {text("ab"), text("cd"), text("ef")}), "    ab|cd    |  ef   |");
  EXPECT_EQ(brace("{:05d} {:+} {:,}", {Value::integer(42), Value::integer(7), Value::integer(1234567)}),
            "00042 +7 1,234,567");
  EXPECT_EQ(
      brace("{:.2f} {:e} {:g} {:%}", {Value::real(3.14159), Value::real(1234.5), Value::real(0.5), Value::real(0.25)}),
      "3.14 1.234500e+03 0.5 25.000000%");
  EXPECT_EQ(brace("{:x} {:#b} {:o}", {Value::integer(255), Value::integer(5), Value::integer(8)}), "ff 0b101 10");
  EXPECT_EQ(brace("{!r:>6}", {text("a")}), "   'a'");
  EXPECT_EQ(brace("{{}} {:*^9}", {text("mid")}), "{} ***mid***");
  EXPECT_EQ(brace("{:_}", {Value::integer(1234567)}), "1_234_567");
  EXPECT_EQ(brace("{:8.3f}|{:.3}", {Value::real(3.14159), text("abcdef")}), "   3.142|abc");
}

TEST_F(JinjaNumbers, BrokenFormatsAreRefused) {
  EXPECT_THROW(percent("%d", {text("a")}), TemplateError);
  EXPECT_THROW(percent("%s %s", {text("a")}), TemplateError);
  EXPECT_THROW(percent("%", {}), TemplateError);
  EXPECT_THROW(brace("{", {}), TemplateError);
  EXPECT_THROW(brace("{}", {}), TemplateError);
  EXPECT_THROW(brace("{:d}", {text("a")}), TemplateError);
}

}  // namespace
}  // namespace fathom::jinja
