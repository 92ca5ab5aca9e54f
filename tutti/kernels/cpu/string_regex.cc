// Regular expressions, by RE2: linear in the text, so that a pattern from outside cannot hang a server.
#include <re2/re2.h>

#include <memory>

#include "tutti/core/mutex.h"
#include "tutti/core/strings.h"
#include "tutti/kernels/cpu/strings.h"

namespace tutti::cpu {
namespace {

using Regex = std::shared_ptr<const re2::RE2>;

Result<Regex> compile_regex(const std::string& pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  auto regex = std::make_shared<const re2::RE2>(pattern, options);
  if (!regex->ok()) return invalid_argument("Invalid pattern: ", printable(pattern), ", error: ", regex->error());
  return Regex(std::move(regex));
}

// The pattern of input 1, compiled again only when it is another than the last time.
class PatternCache {
 public:
  Result<Regex> get(const Tensor& pattern) {
    if (pattern.rank() != 0) return invalid_argument("Pattern must be scalar, but received ", pattern.shape());
    const std::string& text = pattern.scalar<std::string>();
    {
      MutexLock lock(mu_);
      if (last_ != nullptr && last_->pattern() == text) return last_;
    }
    TUTTI_ASSIGN_OR_RETURN(Regex regex, compile_regex(text));
    MutexLock lock(mu_);
    last_ = regex;
    return regex;
  }

 private:
  Mutex mu_;
  Regex last_ TUTTI_GUARDED_BY(mu_);
};

Status match_all(KernelContext& ctx, const re2::RE2& regex) {
  const Tensor& in = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
  for (std::int64_t i = 0; i < in.num_elements(); ++i) {
    if (ctx.cancellation().cancelled()) return ctx.cancellation().status();
    out->data<bool>()[i] = re2::RE2::FullMatch(in.data<std::string>()[i], regex);
  }
  return {};
}

// A rewrite that RE2 does not take leaves the text alone or drops the match, as in TensorFlow.
Status replace_all(KernelContext& ctx, const re2::RE2& regex, const std::string& rewrite, bool global) {
  const Tensor& in = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, in.shape()));
  for (std::int64_t i = 0; i < in.num_elements(); ++i) {
    if (ctx.cancellation().cancelled()) return ctx.cancellation().status();
    std::string& text = out->data<std::string>()[i];
    text = in.data<std::string>()[i];
    if (global) {
      re2::RE2::GlobalReplace(&text, regex, rewrite);
    } else {
      re2::RE2::Replace(&text, regex, rewrite);
    }
  }
  return {};
}

class RegexFullMatch : public Kernel {
 public:
  explicit RegexFullMatch(const KernelInit&) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Regex regex, patterns_.get(ctx.input(1)));
    return match_all(ctx, *regex);
  }

 private:
  PatternCache patterns_;
};

class StaticRegexFullMatch : public Kernel {
 public:
  explicit StaticRegexFullMatch(Regex regex) : regex_(std::move(regex)) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(Regex regex, compile_regex(init.attr<std::string>("pattern")));
    return std::unique_ptr<Kernel>(std::make_unique<StaticRegexFullMatch>(std::move(regex)));
  }
  Status compute(KernelContext& ctx) override { return match_all(ctx, *regex_); }

 private:
  const Regex regex_;
};

class RegexReplace : public Kernel {
 public:
  explicit RegexReplace(const KernelInit& init) : global_(init.attr<bool>("replace_global")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Regex regex, patterns_.get(ctx.input(1)));
    const Tensor& rewrite = ctx.input(2);
    if (rewrite.rank() != 0) return invalid_argument("Rewrite must be scalar, but received ", rewrite.shape());
    return replace_all(ctx, *regex, rewrite.scalar<std::string>(), global_);
  }

 private:
  PatternCache patterns_;
  const bool global_;
};

class StaticRegexReplace : public Kernel {
 public:
  StaticRegexReplace(Regex regex, const KernelInit& init)
      : regex_(std::move(regex)),
        rewrite_(init.attr<std::string>("rewrite")),
        global_(init.attr<bool>("replace_global")) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(Regex regex, compile_regex(init.attr<std::string>("pattern")));
    return std::unique_ptr<Kernel>(std::make_unique<StaticRegexReplace>(std::move(regex), init));
  }
  Status compute(KernelContext& ctx) override { return replace_all(ctx, *regex_, rewrite_, global_); }

 private:
  const Regex regex_;
  const std::string rewrite_;
  const bool global_;
};

}  // namespace

KernelFactory regex_full_match_kernel() { return kernel_of<RegexFullMatch>(); }
KernelFactory static_regex_full_match_kernel() { return kernel_of<StaticRegexFullMatch>(); }
KernelFactory regex_replace_kernel() { return kernel_of<RegexReplace>(); }
KernelFactory static_regex_replace_kernel() { return kernel_of<StaticRegexReplace>(); }

}  // namespace tutti::cpu
