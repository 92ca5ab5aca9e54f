#include "tutti/kernels/cpu/print.h"

#include <cstdio>
#include <string>

#include "tutti/core/file_system.h"
#include "tutti/core/mutex.h"
#include "tutti/kernels/cpu/tensor_text.h"

namespace tutti::cpu {
namespace {

// In one call, so that lines of concurrent kernels do not mix.
Status write_text(std::FILE* stream, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  if (std::fflush(stream) != 0 || !written) return unavailable("the output stream takes no more");
  return {};
}

class Print : public Kernel {
 public:
  explicit Print(const KernelInit& init)
      : message_(init.attr<std::string>("message")),
        summarize_(init.attr<std::int64_t>("summarize")),
        first_n_(init.attr<std::int64_t>("first_n")) {}

  Status compute(KernelContext& ctx) override {
    ctx.set_output(0, ctx.input(0));
    if (!counts()) return {};
    std::string text = message_;
    for (int i = 1; i < ctx.num_inputs(); ++i) text += str_cat("[", summary_of(ctx.input(i), summarize_), "]");
    return write_text(stderr, text + '\n');
  }

 private:
  // Whether this run is one of the first n.
  bool counts() {
    if (first_n_ < 0) return true;
    MutexLock lock(mu_);
    if (printed_ >= first_n_) return false;
    ++printed_;
    return true;
  }

  const std::string message_;
  const std::int64_t summarize_;
  const std::int64_t first_n_;
  Mutex mu_;
  std::int64_t printed_ TUTTI_GUARDED_BY(mu_) = 0;
};

constexpr std::string_view kFilePrefix = "file://";

class PrintV2 : public Kernel {
 public:
  explicit PrintV2(const KernelInit& init)
      : stream_(init.attr<std::string>("output_stream")), end_(init.attr<std::string>("end")) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const std::string& stream = init.attr<std::string>("output_stream");
    for (const char* known : {"stdout", "stderr", "log(info)", "log(warning)", "log(error)"}) {
      if (stream == known) return std::unique_ptr<Kernel>(std::make_unique<PrintV2>(init));
    }
    if (stream.starts_with(kFilePrefix)) return std::unique_ptr<Kernel>(std::make_unique<PrintV2>(init));
    return invalid_argument("Unknown output stream: ", printable(stream),
                            ", Valid streams are: stdout stderr log(info) log(warning) log(error)");
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    if (input.rank() != 0) return invalid_argument("Input is expected to be scalar, but got ", input.shape());
    const std::string text = input.scalar<std::string>() + end_;
    if (stream_.starts_with(kFilePrefix)) return append_to_file(ctx, text);
    return write_text(stream_ == "stdout" ? stdout : stderr, text);
  }

 private:
  Status append_to_file(KernelContext& ctx, const std::string& text) const {
    FileSystem* files = ctx.services().files;
    if (files == nullptr) return failed_precondition("this task has no files to print to");
    TUTTI_ASSIGN_OR_RETURN(auto file, files->open_for_append(stream_.substr(kFilePrefix.size())));
    TUTTI_RETURN_IF_ERROR(file->append(text));
    return file->close();
  }

  const std::string stream_;
  const std::string end_;
};

}  // namespace

KernelFactory print_kernel() { return kernel_of<Print>(); }
KernelFactory print_v2_kernel() { return kernel_of<PrintV2>(); }

}  // namespace tutti::cpu
