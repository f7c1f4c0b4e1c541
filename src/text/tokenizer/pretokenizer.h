// The "pre_tokenizer" of tokenizer.json: cuts a text into the pieces that the model sees one by one.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/pieces.h"

namespace fathom {

class PreTokenizer {
 public:
  // Pieces in, pieces out; an empty piece is never passed on.
  class Step {
   public:
    virtual ~Step() = default;
    // `recent`: the text holds characters assigned after Unicode 14.
    virtual void run(const std::vector<Piece>& in, PieceList& out, bool recent) const = 0;
    // Whether it makes a difference to run().
    virtual bool asks_for_recent() const { return false; }
  };

  // As the file has it, and what to call it.
  struct NamedStep {
    std::unique_ptr<Step> step;
    std::string name;
  };

  // From JSON null: the whole text is one piece. `scanners` allows hand-written forms of known patterns.
  explicit PreTokenizer(const nlohmann::json& description, bool scanners = true);

  // The pieces of a valid UTF-8 text, which must outlive them.
  void split(Piece text, PieceList& out) const;

  // The same pieces, each with the name of the last step that changed it ("" if none did), by the steps as the file has
  // them; slower.
  struct Explained {
    std::string text;
    std::string_view rule;  // valid as long as this object
  };
  std::vector<Explained> explain(Piece text) const;

  // The last step is ByteLevel: the pieces are bytes still to be taken as characters of its alphabet.
  bool ends_in_bytes() const { return ends_in_bytes_; }

 private:
  std::vector<NamedStep> steps_;                 // as in the file
  std::vector<std::unique_ptr<Step>> scanners_;  // that stand for several of them
  std::vector<const Step*> active_;              // what split() runs
  bool ends_in_bytes_ = false;
  bool asks_for_recent_ = false;
};

}  // namespace fathom
