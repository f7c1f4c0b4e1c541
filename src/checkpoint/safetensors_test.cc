#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "checkpoint/slice.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

std::string file_of(std::string header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\x11');
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string refusal(const std::string& file) {
  try {
    parse_safetensors(bytes_of(file), "f.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

fs::path scratch(const char* name) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("fathom-safetensors-test-{}", ::getpid());
  fs::create_directories(folder);
  return folder / name;
}

TEST(Safetensors, ReadsAGoodHeader) {
  const std::string file =
      file_of("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "F32", "[2,3]", "[4,28]") + "," +
                  tensor("a", "BF16", "[2]", "[0,4]") + "," + tensor("none", "U8", "[0,5]", "[28,28]") + "}   ",
              28);
  const SafetensorsHeader header = parse_safetensors(bytes_of(file), "f");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].dtype, DType::f32);
  EXPECT_EQ(header.tensors[1].shape, (Shape{2, 3}));
  EXPECT_EQ(header.offsets[1] - header.offsets[0], 4);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(Safetensors, AnUnknownTypeIsOfItsTensorAlone) {
  const std::string file =
      file_of("{" + tensor("odd", "F4", "[3,2]", "[0,3]") + "," + tensor("a", "BF16", "[2]", "[3,7]") + "," +
                  tensor("odder", "no\\ntype", "[1]", "[7,28]") + "}",
              28);
  const SafetensorsHeader header = parse_safetensors(bytes_of(file), "f");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].dtype, DType::unknown);
  EXPECT_EQ(header.tensors[0].type(), "F4");
  EXPECT_EQ(header.tensors[0].shape, (Shape{3, 2}));
  EXPECT_EQ(header.sizes, (std::vector<i64>{3, 4, 21}));
  EXPECT_EQ(header.tensors[1].type(), "bf16");
  EXPECT_EQ(header.tensors[2].type().find('\n'), std::string_view::npos);
  const std::string backwards = "{" + tensor("odd", "F4", "[3]", "[4,0]") + "}";
  EXPECT_NE(refusal(file_of(backwards, 4)).find("do not hold"), std::string::npos);
  const std::string large = "{" + tensor("odd", "F4", "[4611686018427387904,8]", "[0,4]") + "}";
  EXPECT_NE(refusal(file_of(large, 4)).find("impossibly large"), std::string::npos);
}

TEST(Safetensors, RefusesDamagedFiles) {
  const std::string good = tensor("a", "BF16", "[2]", "[0,4]");
  const std::string scalar = "{" + tensor("a", "U8", "[]", "[0,1]") + "}";
  EXPECT_EQ(refusal(file_of(scalar, 1)), "");
  std::string huge = file_of("{" + good + "}", 4);
  std::memset(huge.data(), 0xff, 8);
  std::string cut = file_of("{" + good + "}", 4);
  const std::string whole = std::to_string(cut.size());
  cut.pop_back();
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "truncated: 3 bytes"},
      {std::string(8, '\0'), "header is no JSON object"},
      {huge, "header would have 18446744073709551615 bytes"},
      {file_of("{" + good + "}", 4).substr(0, 20), "truncated: 20 of at least"},
      {cut, "truncated: " + std::to_string(cut.size()) + " of " + whole + " bytes"},
      {file_of("{" + good + "}", 5), "1 bytes after the last tensor"},
      {file_of("{" + good + "," + good + "}", 4), "appears twice"},
      {file_of(R"({"a":{"dtype":"U8","dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", 4),
       "\"dtype\" appears twice"},
      {file_of(R"({"__metadata__":{"x":"1","x":"2"},)" + good + "}", 4), "\"x\" appears twice"},
      {file_of("{" + good + "," + tensor("b", "BF16", "[2]", "[2,6]") + "}", 6), "overlaps"},
      {file_of("{" + good + "," + tensor("b", "BF16", "[2]", "[0,4]") + "}", 4), "overlaps"},
      {file_of("{" + good + "," + tensor("b", "BF16", "[2]", "[6,10]") + "}", 10), "2 bytes before tensor b"},
      {file_of("{" + tensor("a", "BF16", "[2]", "[4,0]") + "}", 4), "do not hold"},
      {file_of("{" + tensor("a", "BF16", "[3]", "[0,4]") + "}", 4), "do not hold the 6 bytes"},
      {file_of("{" + tensor("a", "BF16", "[-2]", "[0,4]") + "}", 4), "not -2"},
      {file_of("{" + tensor("a", "BF16", "[2.0]", "[0,4]") + "}", 4), "not 2.0"},
      {file_of("{" + tensor("a", "BF16", "[\"2\"]", "[0,4]") + "}", 4), "not \"2\""},
      {file_of("{" + tensor("a", "BF16", "2", "[0,4]") + "}", 4), "shape must be a list"},
      {file_of("{" + tensor("a", "BF16", "[1,1,1,1,2]", "[0,4]") + "}", 4), "5 dimensions"},
      {file_of("{" + tensor("a", "BF16", "[4294967296,4294967296]", "[0,4]") + "}", 4), "impossibly large"},
      {file_of("{" + tensor("a", "BF16", "[18446744073709551615]", "[0,4]") + "}", 4), "from 0 to 2^62"},
      {file_of("{" + tensor("a", "U8", "[4611686018427387904]", "[0,4611686018427387904]") + "}", 4), "truncated"},
      {file_of("{" + tensor("a", "BF16", "[2]", "[0,4,8]") + "}", 4), "two numbers"},
      {file_of("{" + tensor("a", "BF16", "[2]", "[0,1e1]") + "}", 4), "from 0 to 2^62"},
      {file_of("{\"a\":{\"shape\":[2],\"data_offsets\":[0,4]}}", 4), "has no \"dtype\""},
      {file_of("{\"a\":[1]}", 4), "described by an object"},
      {file_of("{\"__metadata__\":{\"x\":1}}", 0), "__metadata__ x must be a text"},
      {file_of("{\"__metadata__\":[]}", 0), "__metadata__ must be an object"},
      {file_of("{\"a\xff\":{}}", 0), "not valid JSON"},
      {file_of("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", 0), "nested deeper"},
      {file_of("{" + good + "} x", 4), "not valid JSON"},
      {file_of("[1,2]", 0), "no JSON object"},
  };
  for (const auto& [file, word] : cases) {
    const std::string message = refusal(file);
    EXPECT_NE(message.find(word), std::string::npos) << "wanted " << word << ", got " << message;
    EXPECT_NE(message.find("f.safetensors"), std::string::npos) << message;
  }
}

TEST(Safetensors, AnyCutOfAGoodFileIsRefused) {
  const std::string file = file_of("{" + tensor("a", "BF16", "[2]", "[0,4]") + "}", 4);
  for (std::size_t size = 0; size < file.size(); ++size) EXPECT_NE(refusal(file.substr(0, size)), "") << size;
}

// A file of the Python library, read and written again, gives the same bytes.
TEST(Safetensors, WritesWhatThePythonLibraryWrites) {
  const fs::path golden = fs::path(std::getenv("FATHOM_TEST_DATA")) / "golden/golden/kernels.safetensors";
  const SafetensorsFile source(golden);
  ASSERT_GT(source.tensors().size(), 5u);
  std::vector<TensorInfo> shuffled(source.tensors().rbegin(), source.tensors().rend());
  const fs::path copy = scratch("copy.safetensors");
  SafetensorsWriter writer(copy, shuffled, source.metadata());
  for (const TensorInfo& info : writer.tensors()) writer.write(source.bytes(info.name));
  EXPECT_FALSE(fs::exists(copy));
  writer.finish();
  EXPECT_TRUE(read_file(copy) == read_file(golden));
}

TEST(Safetensors, WriterCountsBytes) {
  const fs::path path = scratch("short.safetensors");
  {
    SafetensorsWriter writer(path, {{"a", DType::f32, {2}}});
    const std::vector<std::byte> bytes(8);
    writer.write(std::span(bytes).first(5));
    EXPECT_THROW(writer.finish(), Error);
    EXPECT_THROW(writer.write(std::span(bytes).first(4)), Error);
  }
  EXPECT_TRUE(fs::is_empty(path.parent_path()) || !fs::exists(path));
  EXPECT_THROW(SafetensorsWriter(path, {{"a", DType::f32, {2}}, {"a", DType::f32, {2}}}), Error);
}

TEST(Slice, CopiesRectangles) {
  const TensorInfo info{"t", DType::u8, {2, 3, 2}};
  const std::string whole = "abcdefghijkl";
  const auto read = [&](const Slice& slice) {
    std::string out(static_cast<std::size_t>(slice_shape(info, slice).numel()), '?');
    copy_slice(info, slice, bytes_of(whole), std::as_writable_bytes(std::span(out)));
    return out;
  };
  EXPECT_EQ(read({}), whole);
  EXPECT_EQ(read({0, 1, 1}), "ghijkl");
  EXPECT_EQ(read({1, 1, 2}), "cdefijkl");
  EXPECT_EQ(read({2, 1, 1}), "bdfhjl");
  EXPECT_EQ(read({1, 3, 0}), "");
  EXPECT_THROW(read({1, 2, 2}), Error);
  EXPECT_THROW(read({1, -1, 2}), Error);
  EXPECT_THROW(read({3, 0, 1}), Error);
  EXPECT_THROW(read({0, std::numeric_limits<i64>::max(), 1}), Error);
  std::string small(3, '?');
  EXPECT_THROW(copy_slice(info, {}, bytes_of(whole), std::as_writable_bytes(std::span(small))), Error);
}

}  // namespace
}  // namespace fathom
